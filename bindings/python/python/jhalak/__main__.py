"""`python -m jhalak`: what this machine runs, and how other packages find jhalak."""

import argparse
import sys

import jhalak
from jhalak import _install


def main(arguments=None):
    """Runs one verb."""
    parser = argparse.ArgumentParser(prog="python -m jhalak", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("info", help="version and instruction set")
    for verb, text in (
        ("install-flash-attn", "lets other packages find jhalak as flash-attn"),
        ("uninstall-flash-attn", "takes that back"),
    ):
        verbs.add_parser(verb, help=text).add_argument(
            "--folder", help="where packages are, if not this Python's site-packages"
        )
    verbs.add_parser(
        "local-kernels", help="the LOCAL_KERNELS that makes transformers' flash attention jhalak"
    )
    chosen = parser.parse_args(arguments)
    if chosen.verb == "info":
        print(f"jhalak {jhalak.__version__}, {jhalak.instruction_set()}")
    elif chosen.verb == "local-kernels":
        from jhalak.transformers import local_kernels

        print(local_kernels())
    elif chosen.verb == "install-flash-attn":
        try:
            site = _install.install(chosen.folder)
        except FileExistsError as error:
            sys.exit(str(error))
        print(f"flash-attn {_install.VERSION} in {site} is jhalak now")
    elif _install.uninstall(chosen.folder):
        print("flash-attn is gone again")
    else:
        sys.exit("jhalak's flash-attn is not installed here")


if __name__ == "__main__":
    main()
