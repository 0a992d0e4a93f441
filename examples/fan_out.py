"""Fan-out and fan-in: read all pages of a catalogue at once, on each page all prices at once, and merge the results.

You learn: `ctx.join` runs branches in parallel and returns their results by name. A branch is an async
function that takes a context of its own, so names need to be unique only within it, and it may join again. The
steps of a branch are recorded: after a crash only the missing steps run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, workflow

PAGES = [["apple", "banana"], ["cherry", "date", "elderberry"], ["fig"]]  # the answers of the shop
PRICES = {"apple": 3, "banana": 2, "cherry": 9, "date": 7, "elderberry": 12, "fig": 5}


@dataclass(frozen=True)
class Product:
    name: str
    price: int


async def count_pages() -> int:
    return len(PAGES)


async def fetch_names(page: int) -> list[str]:
    print(f"fetch page {page}")
    return PAGES[page]


async def fetch_price(name: str) -> int:
    print(f"fetch the price of {name}")
    return PRICES[name]


async def read_product(ctx: Context, name: str) -> Product:
    return Product(name, await ctx.step(fetch_price, name))


async def read_page(ctx: Context, page: int) -> list[Product]:
    names = await ctx.step(fetch_names, page)
    if not names:
        return []  # a join needs at least one branch
    products = await ctx.join("products", {name: partial(read_product, name=name) for name in names})
    return list(products.values())


@workflow
async def read_catalogue(ctx: Context) -> list[Product]:
    count = await ctx.step(count_pages)
    if count == 0:
        return []
    pages = await ctx.join("pages", {f"page-{page}": partial(read_page, page=page) for page in range(count)})
    return [product for products in pages.values() for product in products]


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/catalogue.db", workflows=[read_catalogue]) as engine:
            run = await engine.start(read_catalogue)
            products = await run.result()
            print(f"{len(products)} products, {sum(product.price for product in products)} EUR in total")


if __name__ == "__main__":
    asyncio.run(main())
