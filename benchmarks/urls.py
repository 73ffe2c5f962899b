"""The URLs of all benchmarks: deterministic, distinct, and shaped like those of shops.

Standard library only, because the peers import it from their own environment.
"""

from collections.abc import Iterator
from itertools import islice

CATEGORIES = ("kitchen", "garden", "lighting", "office", "bedroom", "outdoor", "storage", "bath", "kids", "hallway")
LOOKS = (
    "folding", "classic", "modern", "rustic", "compact", "large", "small", "round", "square", "vintage",
    "foldable", "stackable", "light", "dark", "nordic", "industrial", "handmade", "recycled", "premium", "basic",
)  # fmt: skip
MATERIALS = (
    "oak", "pine", "steel", "glass", "linen", "cotton", "leather", "bamboo", "marble", "walnut",
    "rattan", "ceramic", "copper", "velvet", "wool", "cork", "acrylic", "birch", "brass", "teak",
)  # fmt: skip
THINGS = (
    "chair", "table", "lamp", "shelf", "cabinet", "mirror", "rug", "sofa", "stool", "bench",
    "desk", "bed", "drawer", "clock", "vase", "curtain", "pillow", "bowl", "basket", "planter",
    "rack", "tray", "candle", "frame", "hook", "box", "cushion", "blanket", "kettle", "mug",
)  # fmt: skip

IDS_PER_HOST = 899_981
"""A prime below 900,000: multiplying by STRIDE modulo it visits every six-digit article number once."""
STRIDE = 350_377
MASK = 0xFFFF_FFFF_FFFF_FFFF


def scramble(number: int) -> int:
    """Return a well-mixed 32-bit number (the finalizer of splitmix64), so that slugs have no pattern that can be compressed."""
    number = (number + 1) * 0x9E37_79B9_7F4A_7C15 & MASK
    number = (number ^ number >> 30) * 0xBF58_476D_1CE4_E5B9 & MASK
    return number * 0x94D0_49BB_1331_11EB >> 32 & 0xFFFF_FFFF


def product_urls(hosts: int, start: int = 0, site: str = "shop") -> Iterator[str]:
    """Yield URL number *start*, *start* + 1, …: each round of *hosts* URLs visits every host once.

    Consecutive URLs are never on the same host, so a batch touches as many hosts as possible: the worst case
    for host accounting. No URL repeats before ``hosts * IDS_PER_HOST``.
    """
    index = start
    while True:
        row, host = divmod(index, hosts)
        number = 100_000 + (row * STRIDE + host) % IDS_PER_HOST
        pick = scramble(index)
        category = CATEGORIES[pick % 10]
        look, material, thing = LOOKS[pick // 10 % 20], MATERIALS[pick // 200 % 20], THINGS[pick // 4_000 % 30]
        yield f"https://{site}{host}.example/{category}/{look}-{material}-{thing}-{number}"
        index += 1


def take(count: int, hosts: int, start: int = 0, site: str = "shop") -> list[str]:
    """Return the first *count* of :func:`product_urls`."""
    return list(islice(product_urls(hosts, start, site), count))


def clustered(count: int, hosts: int, run: int = 20, start: int = 0) -> list[str]:
    """Return the same URLs as ``take``, but in runs of *run* URLs of one host, like the links of a page."""
    return sorted_by_runs(take(count, hosts, start), hosts, run)


def sorted_by_runs(urls: list[str], hosts: int, run: int) -> list[str]:
    """Reorder round-robin *urls*: *run* of the first host, *run* of the second, … and again."""
    block = hosts * run
    ordered: list[str] = []
    for first in range(0, len(urls), block):
        part = urls[first : first + block]
        for host in range(hosts):
            ordered.extend(part[host::hosts])
    return ordered


def batches(urls: list[str], size: int) -> list[list[str]]:
    """Split *urls* into lists of *size*."""
    return [urls[first : first + size] for first in range(0, len(urls), size)]
