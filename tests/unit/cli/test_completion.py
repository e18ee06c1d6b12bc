"""Tab completion, asked as a shell asks."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GARNET = Path(sys.executable).parent / "garnet"
ASK = """
eval "$({garnet} completion bash)"
COMP_WORDS=(garnet {words}); COMP_CWORD={last}; COMPREPLY=()
_garnet_completion garnet
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(not shutil.which("bash") or not GARNET.exists(), reason="needs bash and the installed command")
@pytest.mark.parametrize(("words", "found"), [("pur", "purify"), ("purify --only", "--only-drop"), ("stre", "stress")])
def test_bash_completes_commands_and_options(words, found, tmp_path):
    script = ASK.format(garnet=GARNET, words=words, last=len(words.split()))
    path = f"{GARNET.parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", script], env={"PATH": path, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [found]
    assert list(tmp_path.iterdir()) == []


def test_another_shell_is_refused(command):
    status, _, error = command("completion", "tcsh")
    assert status == 1
    assert "bash, zsh, fish, powershell" in error
