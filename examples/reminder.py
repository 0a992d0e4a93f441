"""A yearly reminder that continues for decades, across restarts, until it is stopped.

You learn: deadlines are kept in the database, not in the process. The program may stop and start at any time,
and a reminder that became due meanwhile is sent at the next start. Each year is a run of its own
(`ctx.continue_as_new`), so nothing grows. The next date counts from the date that was due, not from the date on
which the reminder was sent, so the day never shifts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, workflow


@dataclass(frozen=True)
class Reminder:
    text: str
    due_at: datetime
    every: timedelta = timedelta(days=365)
    sent: int = 0


async def send_reminder(reminder: Reminder) -> None:
    print(f"reminder {reminder.sent + 1}: {reminder.text}")


@workflow
async def remind(ctx: Context, reminder: Reminder) -> str:
    remaining = max(reminder.due_at - ctx.now(), timedelta(0))
    if await ctx.receive_many("stop", timeout=remaining):
        return f"stopped after {reminder.sent} reminders"
    await ctx.step(send_reminder, reminder)
    ctx.continue_as_new(replace(reminder, due_at=reminder.due_at + reminder.every, sent=reminder.sent + 1))


async def main() -> None:
    every = timedelta(seconds=1)
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/reminders.db"
        async with Engine(url, workflows=[remind]) as engine:
            reminder = Reminder("the birthday of Ann", due_at=datetime.now(UTC) + every, every=every)
            await engine.start(remind, reminder, key="birthday")
            await asyncio.sleep(1.5)
        print("the program stops, and starts again")
        async with Engine(url, workflows=[remind]) as engine:
            await asyncio.sleep(1)
            await engine.signal("birthday", "stop")
            print(await engine.result("birthday"))


if __name__ == "__main__":
    asyncio.run(main())
