"""A ReAct-style agent: the model thinks, uses tools, reads their results, and continues until it has the answer.

You learn: every call of the model and of a tool is a step, so a crash never pays twice for a thought and never
repeats an action. `ctx.loop` keeps the conversation as durable state and trims the history of old rounds, so an
agent may run for days. The tools of one round run in parallel in `ctx.join`, each named by its call id. A tool
that needs a person waits for a signal.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory

from stepwell import Break, Context, Continue, Engine, Retry, step, workflow

MESSAGES_MAX = 6  # how many messages the model sees, in addition to the question


@dataclass(frozen=True)
class ToolCall:
    id: str
    tool: str
    argument: str


@dataclass(frozen=True)
class Reply:
    """The output of the model: calls of tools, or the answer."""

    calls: list[ToolCall] = field(default_factory=list)
    answer: str = ""


@dataclass(frozen=True)
class Conversation:
    question: str
    messages: list[str] = field(default_factory=list)


def add(conversation: Conversation, messages: list[str]) -> Conversation:
    """The conversation with the newest messages, without the oldest ones."""
    return Conversation(conversation.question, [*conversation.messages, *messages][-MESSAGES_MAX:])


@step(retry=Retry(max_attempts=5), timeout="2m")
async def ask_model(conversation: Conversation) -> Reply:
    """A fake model with a fixed plan; a real model is a call over the network."""
    said = conversation.messages
    if not said:
        return Reply([ToolCall("call-1", "search", "flights to Oslo"), ToolCall("call-2", "search", "weather in Oslo")])
    if not any(message.startswith("call-3") for message in said):
        return Reply([ToolCall("call-3", "book", "the flight at 9:15")])
    return Reply(answer=f"Done. {said[-1].partition(': ')[2]}; it is sunny in Oslo.")


async def search(text: str) -> str:
    print(f"tool: search {text}")
    return f"results for {text}"


async def book(what: str) -> str:
    print(f"tool: book {what}")
    return f"I booked {what}"


async def ask_person(call: ToolCall) -> None:
    print(f"{call.id}: may I book {call.argument}?")


async def use_tool(ctx: Context, call: ToolCall) -> str:
    if call.tool == "search":
        return await ctx.step(search, call.argument)
    await ctx.step(ask_person, call)
    approval = await ctx.receive(f"approve-{call.id}")
    if not approval.payload:
        return "a person said no"
    return await ctx.step(book, call.argument)


async def think(ctx: Context, conversation: Conversation) -> Continue[Conversation] | Break[str]:
    reply = await ctx.step(ask_model, conversation)
    if reply.answer:
        return Break(reply.answer)
    results = await ctx.join("tools", {call.id: partial(use_tool, call=call) for call in reply.calls})
    return Continue(add(conversation, [f"{call_id}: {result}" for call_id, result in results.items()]))


@workflow
async def agent(ctx: Context, question: str) -> str:
    return await ctx.loop("rounds", think, Conversation(question), trim_every=10, keep=10)


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/agent.db", workflows=[agent]) as engine:
            run = await engine.start(agent, "Get me to Oslo", key="trip")
            await asyncio.sleep(0.5)  # a person takes some time
            await engine.signal("trip", "approve-call-3", True)
            print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
