"""What to do about errors that need more than their own words; errors of a group share the page of the group."""

from __future__ import annotations

from typing import Final

PAGES: Final = {
    "SW100": "The code has to be changed: the message names the function and what to write instead.",
    "SW200": (
        "The run is paused at this place. What it has recorded is kept, and no step after this place is run. It goes\n"
        "on by itself when a worker starts with code that fits it, or at once with `stepwell resume RUN`."
    ),
    "SW201": (
        "The history of the run names operations that this code does not come to, or comes to otherwise. The run is\n"
        "parked before anything new is run, and goes on by itself when a worker with code that fits it starts.\n\n"
        "Causes, the likeliest first:\n"
        '  a step was put in front of others      guard it: if ctx.version("fraud", 2) >= 2: ...\n'
        '  a step was renamed                      keep its name: ctx.step("charge", charge_card)\n'
        '  a step was taken out                    declare it: ctx.removed("charge", "step")\n'
        "  the type of a result was changed        keep the annotation, or register an upcaster\n"
        "  the order of steps depends on time, chance or a set    see SW121\n"
        "  all of it was changed                   @workflow(name=..., version=2), and keep the old function\n\n"
        "Before the next deploy: stepwell check MODULE --db URL replays every run in flight, and changes nothing."
    ),
    "SW202": (
        "Several workers in a row died or lost their lease while they executed this run, and nothing was recorded in\n"
        "between. It is paused so that it does not take down more workers. It does not go on by itself.\n\n"
        "  1. stepwell show RUN     shows the last step that is recorded. That step, or the one after it, kills or\n"
        "                           blocks the worker: os._exit, a crash in C, no memory, a blocked event loop.\n"
        "  2. Fix the step, and restart the workers with the new code.\n"
        "  3. stepwell resume RUN   lets the run go on from its last record."
    ),
    "SW400": "The request was wrong, and nothing was stored: the message says what would be right.",
    "SW441": "Write the file again with `stepwell export RUN -o FILE`, or read it with the release that wrote it.",
    "SW450": "How a run, or a part of it, ended. `stepwell show RUN` has the place, `stepwell why RUN` what is next.",
    "SW600": "The database or its file: `stepwell doctor` says what is wrong with it.",
    "SW850": "The event is tried again by the policy of its sink, and is a dead letter after that.",
}
