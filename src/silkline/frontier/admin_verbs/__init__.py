"""The verbs of operators, one file per topic: values, commands, flows, and the reading of replies."""
