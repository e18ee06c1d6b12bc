"""A command that is killed at any instant leaves at most its own directory, and given again ends as if undisturbed."""

import random
import signal
import time

import pytest
from commands import BY_NAME, COMMANDS, each, few, held
from jail import SCRATCH, require_done, require_refused

SIGNALS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
LONG = [one for one in COMMANDS if one.long]
INSTANTS, SLOW_INSTANTS = 1, 25


def numbers():
    return [*range(INSTANTS), *(pytest.param(n, marks=pytest.mark.campaign) for n in range(INSTANTS, SLOW_INSTANTS))]


def end_again(jail, command, expected):
    """Give the command again, which was stopped, and see that all is as if it had not been."""
    output = f"out{command.ending}"
    jail.sweep()
    before = {path for path in jail.work.glob(SCRATCH) if path.name != ".garnet-fake"}
    gone = [path.relative_to(jail.work) for path in before]
    done = jail.run(*command(output), outputs=[*command.outputs(output), *gone])
    require_done(done)
    assert held(jail, command) == expected
    assert not any(path.exists() for path in before), "what the first run left is still there"


@pytest.mark.parametrize("command", each())
@pytest.mark.parametrize("number", numbers())
@pytest.mark.parametrize("name", ["kill -9", pytest.param("SIGTERM", marks=pytest.mark.campaign)])
def test_killed_before_a_change_of_the_file_system(furnished, undisturbed, command, number, name):
    expected, steps, _ = undisturbed(command)
    step = random.Random(f"{command} {name} {number}").randrange(steps)
    output = f"out{command.ending}"
    done = furnished.run(*command(output), at=(SIGNALS[name], step), outputs=command.outputs(output), leftover=True)
    assert done.status != 0, f"it was to be killed at change {step} of {steps}"
    end_again(furnished, command, expected)


@pytest.mark.parametrize("command", each())
def test_killed_when_all_but_the_last_is_done(furnished, undisturbed, command):
    expected, steps, _ = undisturbed(command)
    output = f"out{command.ending}"
    furnished.run(
        *command(output), at=(signal.SIGKILL, max(0, steps - 3)), outputs=command.outputs(output), leftover=True
    )
    end_again(furnished, command, expected)


@pytest.mark.campaign
@pytest.mark.parametrize("command", each(COMMANDS))
@pytest.mark.parametrize("number", range(SLOW_INSTANTS))
@pytest.mark.parametrize("name", ["kill -9", "SIGTERM"])
def test_killed_at_a_random_instant(furnished, undisturbed, command, number, name):
    expected, _, seconds = undisturbed(command)
    output = f"out{command.ending}"
    before = furnished.fingerprint()
    run = furnished.start(*command(output))
    time.sleep(random.Random(f"{command} {name} {number} at").uniform(0, seconds))
    run.kill(SIGNALS[name])
    run.wait()
    furnished.require_unchanged(before, command.outputs(output), leftover=True)
    end_again(furnished, command, expected)


@pytest.mark.parametrize("command", each([one for one in COMMANDS if not one.long]))
@pytest.mark.parametrize("number", numbers())
def test_a_short_command_that_is_stopped_leaves_nothing(furnished, undisturbed, command, number):
    expected, steps, _ = undisturbed(command)
    step = random.Random(f"{command} Ctrl-C {number}").randrange(steps)
    output = f"out{command.ending}"
    before = furnished.fingerprint()
    done = furnished.start(*command(output), at=(signal.SIGINT, step)).wait()
    assert done.status != 1, done  # it is no error
    assert "Traceback" not in done.err
    furnished.sweep()
    furnished.require_unchanged(before, command.outputs(output))
    if done.status == 0 or command.appends or not (furnished.work / output).exists():
        end_again(furnished, command, expected)


@pytest.mark.parametrize("command", each(LONG))
@pytest.mark.parametrize("number", numbers())
def test_a_long_command_that_is_stopped_goes_on(furnished, undisturbed, command, number):
    expected, steps, _ = undisturbed(command)
    step = random.Random(f"{command} Ctrl-C {number}").randrange(steps)
    output = f"out{command.ending}"
    done = furnished.run(*command(output), at=(signal.SIGINT, step), outputs=command.outputs(output), leftover=True)
    assert done.status in (130, -signal.SIGINT), done
    assert "Traceback" not in done.err
    end_again(furnished, command, expected)


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("name", SIGNALS)
def test_a_study_with_processes_side_by_side_goes_on(furnished, undisturbed, number, name):
    command = BY_NAME["bench run"]
    expected, _, _ = undisturbed(command)
    before = furnished.fingerprint()
    run = furnished.start(*command("out.jsonl", "--jobs", "2"))
    time.sleep(random.Random(f"jobs {name} {number}").uniform(0, 8))
    run.kill(SIGNALS[name])
    done = run.wait()  # also for the processes that it had started
    assert "Traceback" not in done.err or name != "Ctrl-C"
    furnished.require_unchanged(before, ["out.jsonl"], leftover=True)
    end_again(furnished, command, expected)


@pytest.mark.parametrize("command", few([BY_NAME["purify"], *LONG]))
def test_what_a_killed_run_left_is_listed_and_removed_when_asked_to(furnished, undisturbed, command):
    _, steps, _ = undisturbed(command)
    output = f"out{command.ending}"
    old = set(furnished.work.glob(SCRATCH))
    furnished.run(*command(output), at=(signal.SIGKILL, steps // 2), outputs=command.outputs(output), leftover=True)
    left = set(furnished.work.glob(SCRATCH)) - old
    assert len(left) == 1
    name = left.pop().name
    listed = furnished.run("clean", ".")
    require_done(listed)
    assert name in listed.out + listed.err
    assert ".garnet-fake" not in listed.out + listed.err
    require_done(furnished.run("clean", ".", "--yes", outputs=[name]))
    assert not (furnished.work / name).exists()
    require_done(furnished.run("clean", ".", "--yes"))


def test_what_a_live_run_works_in_is_not_removed(furnished, undisturbed):
    command = BY_NAME["purify to tiles"]
    expected, steps, _ = undisturbed(command)
    run = furnished.start(*command("out"), at=(signal.SIGSTOP, steps // 2))
    try:
        run.wait_until_stopped()
        before = furnished.fingerprint()
        cleaned = furnished.run("clean", ".", "--yes")
        furnished.require_unchanged(before)
        assert cleaned.status in (0, 1)
    finally:
        run.kill(signal.SIGCONT)
        done = run.wait()
    require_done(done)
    assert held(furnished, command) == expected


@pytest.mark.parametrize("place", ["/", "nowhere", "thesis.txt", "../surroundings", "../home"])
def test_clean_leaves_what_has_no_marker(furnished, place):
    done = furnished.run("clean", place, "--yes")
    if done.status != 0:
        require_refused(done)
