"""What to do about errors whose message is not enough. Errors of a group share the page of the group."""

from __future__ import annotations

from typing import Final

PAGES: Final = {
    "SW100": "Change the code: the message names the function and what to write instead.",
    "SW200": (
        "The run is paused at this path. Its record is kept, and no step after this path runs. The run continues\n"
        "when a worker starts with code that fits it, or at once with `stepwell resume RUN`."
    ),
    "SW201": (
        "The history of the run names operations that this code does not reach, or reaches in another way. The run is\n"
        "paused before anything new runs. It continues when a worker starts with code that fits it.\n\n"
        "Causes, the most likely first:\n"
        '  a step was added before others         guard it: if ctx.version("fraud", 2) >= 2: ...\n'
        '  a step was renamed                      keep its name: ctx.step("charge", charge_card)\n'
        '  a step was removed                      declare it: ctx.removed("charge", "step")\n'
        "  the type of a result was changed        keep the annotation, or register an upcaster\n"
        "  the order of steps depends on time, randomness or a set    see SW121\n"
        "  the whole workflow was changed          @workflow(name=..., version=2), and keep the old function\n\n"
        "Before the next deploy: stepwell check MODULE --db URL replays every run in flight, and changes nothing."
    ),
    "SW202": (
        "Several workers in a row died or lost their lease while they executed this run, and nothing was recorded in\n"
        "between. The run is paused so that it does not stop more workers. It continues only when you resume it.\n\n"
        "  1. stepwell show RUN     shows the last step that is recorded. That step, or the one after it, kills or\n"
        "                           blocks the worker: os._exit, a crash in C, no memory, a blocked event loop.\n"
        "  2. Fix the step, and restart the workers with the new code.\n"
        "  3. stepwell resume RUN   continues the run from its last record."
    ),
    "SW400": "The request was invalid, and nothing was stored. The message names what to change.",
    "SW441": "Write the file again with `stepwell export RUN -o FILE`, or read it with the release that wrote it.",
    "SW450": "How a run, or a part of it, ended. `stepwell show RUN` shows the path, `stepwell why RUN` the next step.",
    "SW600": "A problem of the database or its file: `stepwell doctor` names it.",
    "SW850": "The event is retried by the policy of its sink. After the last retry it is a dead letter.",
}
