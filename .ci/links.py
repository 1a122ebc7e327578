"""Ask every https address in the Markdown files whether it is still there; relative links are
tests/test_docs.py's.

`python .ci/links.py` prints the addresses that answer 404 or 410, or whose host is gone, with the
files that have them, and ends with status 1 if there are any. Other errors (a site that refuses
robots, a slow one) are printed, not counted.
"""

from __future__ import annotations

import re
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r"https?://[^\s<>\"'`)\]}|\\]+")
LOCAL = re.compile(r"https?://(localhost|127\.|0\.0\.0\.0|\[::1\]|[^/]*\.example\b)")
GONE = (404, 410)
SECONDS = 30


def addresses() -> dict[str, list[str]]:
    """Address -> files that have it."""
    files = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found: dict[str, list[str]] = {}
    for name in files.split("\n")[:-1]:
        for match in ADDRESS.findall((ROOT / name).read_text(encoding="utf-8")):
            if not LOCAL.match(match):
                found.setdefault(match.rstrip(".,;:"), []).append(name)
    return found


def problem(address: str) -> tuple[bool, str]:
    """Whether an address is gone, and what is wrong with it; nothing if it answers."""
    request = urllib.request.Request(address, headers={"User-Agent": "Mozilla/5.0 (link check)"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):
            return False, ""
    except urllib.error.HTTPError as error:
        return error.code in GONE, f"status {error.code}"
    except urllib.error.URLError as error:
        return "Name or service not known" in str(error.reason), str(error.reason)
    except OSError as error:
        return False, str(error)


def main() -> int:
    """Print what is wrong; 1 if something is gone."""
    files = addresses()
    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(files, pool.map(problem, files), strict=True))
    for address, (gone, why) in answers.items():
        if why:
            print(
                f"{'gone' if gone else 'unsure'}: {address} ({why}) in "
                f"{', '.join(sorted(set(files[address])))}"
            )
    print(f"{len(files)} addresses, {sum(gone for gone, _ in answers.values())} gone")
    return int(any(gone for gone, _ in answers.values()))


if __name__ == "__main__":
    raise SystemExit(main())
