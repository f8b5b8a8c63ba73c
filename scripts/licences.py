"""Checks that every crate jhalak is built from has a licence that its own licences allow.

Reads `cargo metadata`, so it needs nothing beyond Python's standard library. A crate passes if one
alternative of its SPDX expression consists of allowed licences only.
"""

import json
import re
import subprocess
import sys

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}


def allowed(expression: str) -> bool:
    """Whether an SPDX expression (or the old `A/B` form) can be met by allowed licences."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    value, rest = _either(tokens)
    return value and not rest


def _either(tokens: list[str]) -> tuple[bool, list[str]]:
    value, tokens = _both(tokens)
    while tokens and tokens[0] == "OR":
        other, tokens = _both(tokens[1:])
        value = value or other
    return value, tokens


def _both(tokens: list[str]) -> tuple[bool, list[str]]:
    value, tokens = _one(tokens)
    while tokens and tokens[0] == "AND":
        other, tokens = _one(tokens[1:])
        value = value and other
    return value, tokens


def _one(tokens: list[str]) -> tuple[bool, list[str]]:
    if not tokens:
        return False, []
    if tokens[0] == "(":
        value, tokens = _either(tokens[1:])
        return value, tokens[1:]
    if len(tokens) >= 3 and tokens[1] == "WITH":
        name = " ".join(tokens[:3])
        return name in ALLOWED or tokens[0] in ALLOWED, tokens[3:]
    return tokens[0] in ALLOWED, tokens[1:]


def main() -> int:
    """Prints the crates without an allowed licence; 1 if there are any."""
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    refused = [
        f"{package['name']} {package['version']}: {package['license'] or 'no licence named'}"
        for package in packages["packages"]
        if not allowed(package["license"] or "")
    ]
    for line in refused:
        print(line, file=sys.stderr)
    print(f"licences: {len(packages['packages'])} crates, {len(refused)} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
