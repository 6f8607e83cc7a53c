"""Copies a lock of `uv pip compile --generate-hashes` without the hashes that are installed nowhere: sources (pip takes wheels only), and wheels for
others than CPython from 3.11 on, Linux with glibc and macOS, on x86-64 and ARM64: four of five. Its argument is the index, as pip's --index-url."""
import json
import re
import sys
from urllib.request import Request, urlopen

PYTHON = re.compile(r"(py3|py2\.py3|cp3\d+)-(none|abi3)|cp3(1[1-9]|[2-9]\d)-cp3\d+$")
PLATFORM = re.compile(r"any|.*manylinux[^.]*_(x86_64|aarch64)|.*macosx_.*_(x86_64|arm64|universal2)")


def is_installed(file: str) -> bool:
    python, abi, platform = file.removesuffix(".whl").rsplit("-", 3)[1:] if file.endswith(".whl") else ("", "", "")
    return bool(PYTHON.match(f"{python}-{abi}") and PLATFORM.match(platform))


def hashes_of(package: str) -> set[str]:
    page = Request(f"{sys.argv[1]}/{package}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    files = json.load(urlopen(page))["files"]
    return {file["hashes"]["sha256"] for file in files if is_installed(file["filename"])}


kept: list[str] = []
wanted: set[str] = set()
for line in sys.stdin.read().split("\n"):
    if hashed := re.match(r" +--hash=sha256:(\w+)", line):
        if hashed[1] in wanted:
            kept.append(f"    --hash=sha256:{hashed[1]} \\")
        continue
    if named := re.match(r"([\w.-]+)==", line):
        wanted = hashes_of(named[1])
    if kept:
        kept[-1] = kept[-1].removesuffix(" \\")
    kept.append(line)
print("\n".join(kept), end="")
