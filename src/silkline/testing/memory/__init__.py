"""`MemoryFrontier`: the executable specification of a frontier, which the model tests run step by step against the Lua scripts."""
