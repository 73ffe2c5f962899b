"""Where items go."""

import json
import os

from scrapy.exceptions import DropItem


class StorePipeline:
    """One line an item, written at once: what is here was reached."""

    def __init__(self):
        self._file = os.open(os.environ["OUT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def process_item(self, item, spider):
        if item.get("drop"):
            raise DropItem("not wanted")
        if item.get("fail"):
            raise ValueError("this item cannot be stored")
        os.write(self._file, json.dumps(item).encode() + b"\n")
        return item
