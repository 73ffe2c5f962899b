"""Drops every third product."""

from scrapy.exceptions import DropItem


class Choosy:
    def process_item(self, item, spider):
        if int(item["title"].split()[1]) % 3 == 0:
            raise DropItem("every third is not wanted")
        return item
