"""What GPUs this machine has, asked of nvidia-smi for ``--gpu auto``.

Owns that one question. Must not be called unless the user asks for it.
"""

from __future__ import annotations

import subprocess

from kb.errors import KbctlError

_QUERY = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]


def local_gpus() -> tuple[str, int, str]:
    """(product name, count, driver) of the local GPUs. Raises KbctlError where nvidia-smi gives no answer."""
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except FileNotFoundError as error:
        raise _error("this machine has no nvidia-smi") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_answer(str(error)) from error
    rows = [line.split(", ") for line in done.stdout.splitlines() if ", " in line]
    if done.returncode or not rows:
        raise _no_answer(done.stderr.strip() or done.stdout.strip())
    return rows[0][0].strip(), len(rows), rows[0][1].strip()


def _no_answer(why: str) -> KbctlError:
    return _error(f"nvidia-smi gave no answer: {why[:200]}")


def _error(what: str) -> KbctlError:
    return KbctlError(what, where="--gpu auto", tip="name the GPU, e.g. --gpu h200 or --gpu sm120")
