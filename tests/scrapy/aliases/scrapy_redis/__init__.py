"""``scrapy_redis`` is ``silkline.scrapy``: its modules are the same objects, so that patches of one are patches of the other."""

import importlib
import sys

MODULES = "connection defaults dupefilter picklecompat pipelines queue scheduler spiders stats utils"

for _name in MODULES.split():
    sys.modules[f"scrapy_redis.{_name}"] = importlib.import_module(f"silkline.scrapy.{_name}")
sys.modules["scrapy_redis"] = importlib.import_module("silkline.scrapy")
