"""Two commands at once on one output: one of them has it, whole, and the other says so in a sentence."""

import random
import shutil
import signal

import pytest
from commands import COMMANDS, each, few, held
from jail import require_done, require_refused

STOPS, SLOW_STOPS = 1, 20
WHOLE = [one for one in COMMANDS if not one.appends]


def numbers():
    return [*range(STOPS), *(pytest.param(n, marks=pytest.mark.campaign) for n in range(STOPS, SLOW_STOPS))]


def require_fair(dones):
    """That no command ends but well or with one sentence, and at least one of them well."""
    assert any(done.status == 0 for done in dones), dones
    for done in dones:
        if done.status == 0:
            require_done(done)
        else:
            require_refused(done)


@pytest.mark.parametrize("command", each())
def test_the_same_command_twice_side_by_side(furnished, undisturbed, command):
    expected, _, _ = undisturbed(command)
    output = f"out{command.ending}"
    before = furnished.fingerprint()
    runs = [furnished.start(*command(output)) for _ in range(2)]
    require_fair([run.wait() for run in runs])
    furnished.require_unchanged(before, command.outputs(output))
    assert held(furnished, command) == expected


@pytest.mark.parametrize("command", few(WHOLE))
@pytest.mark.parametrize("number", numbers())
def test_the_same_command_while_the_first_is_held_up(furnished, undisturbed, command, number):
    expected, steps, _ = undisturbed(command)
    output = f"out{command.ending}"
    before = furnished.fingerprint()
    dones = _overlap(furnished, steps, f"{command} {number}", command(output), command(output))
    require_fair(dones)
    furnished.require_unchanged(before, command.outputs(output))
    assert held(furnished, command) == expected


@pytest.mark.parametrize("command", few([one for one in WHOLE if one.words.startswith("purify")]))
@pytest.mark.parametrize("number", numbers())
def test_another_command_while_the_first_is_held_up(furnished, jailer, inputs, undisturbed, command, number):
    expected, steps, _ = undisturbed(command)
    output, other = f"out{command.ending}", ("--gamma", "0.3")
    before = furnished.fingerprint()
    first, second = _overlap(furnished, steps, f"{command} {number}", command(output), command(output, *other))
    require_fair([first, second])
    furnished.require_unchanged(before, command.outputs(output))
    assert {first.status, second.status} == {0, 1}, "one of two results was lost without a word"
    if first.status == 0:
        assert held(furnished, command) == expected
        return
    alone = jailer.jail()
    shutil.copytree(inputs, alone.work / "data")
    require_done(alone.run(*command(output, *other), outputs=command.outputs(output)))
    assert held(furnished, command) == held(alone, command)


def _overlap(jail, steps, seed, first, second):
    """Hold the first command up at some change of the file system until the second has ended."""
    held_up = jail.start(*first, at=(signal.SIGSTOP, random.Random(seed).randrange(steps)))
    try:
        held_up.wait_until_stopped()
        other = jail.start(*second).wait()
    finally:
        held_up.kill(signal.SIGCONT)
        one = held_up.wait()
    return one, other
