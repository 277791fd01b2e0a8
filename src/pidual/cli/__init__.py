"""The command line: parse, call the library, print. Data on stdout, everything else on stderr.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 too many issues, 130 interrupted. Every command is in the module of its
name, `report` in that of `detect`, `next` in `next_answers`. torch is imported inside the commands that need it.
"""

import io
import os
import sys

import click

from .. import __version__
from ..errors import PidualError, TooManyIssues
from ..errors.messages import first_line, printable
from . import (
    annotators,
    benchmark,
    data,
    demo,
    detect,
    doctor,
    export,
    fit,
    judge,
    methods,
    next_answers,
    pairs,
    predict,
    review,
    sweep,
)
from .common import is_first_process, keep_freed_memory, said_warnings, say

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def main() -> None:
    """Run the command line; errors made for users are one sentence without a traceback."""
    keep_freed_memory()
    # Read when torch is loaded: threads that wait for others sleep, and leave a busy machine to those that work.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        with said_warnings():
            code = cli.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        if is_first_process():
            shown = io.StringIO()
            error.show(shown)
            said = error.format_message()
            click.echo(printable(shown.getvalue().replace(said, printable(said)), keep="\n"), err=True, nl=False)
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        say("Interrupted.")
        sys.exit(130)
    except TooManyIssues as error:
        say(str(error))
        sys.exit(error.exit_code)
    except PidualError as error:
        say(f"Interrupted: {error}; continue with --resume." if error.exit_code == 130 else f"Error: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        say(f"Error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}.")
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        words = ("out of memory", "can't allocate memory", "not enough memory")  # torch has no error of its own for it
        if not (isinstance(error, MemoryError) or any(word in str(error) for word in words)):
            raise
        say(
            f"Error: There is not enough memory ({first_line(error) or 'none is left'}); use fewer or smaller inputs, "
            "a smaller --image-size, --batch-size or network, or a machine with more memory."
        )
        sys.exit(1)


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="pidual")
def cli() -> None:
    """Learn from labels you cannot fully trust, using what you know about how each label was made.

    \b
    pidual demo                                          see it work on data that comes with pidual
    pidual fit labels.csv --x features.npy --pi annotator,seconds
    pidual detect runs/labels                            list the labels that look wrong
    """


for command in (
    *(annotators.annotators, benchmark.benchmark, data.data, demo.demo, detect.detect, detect.report, doctor.doctor),
    *(export.export, fit.fit, judge.judge, methods.methods, next_answers.next_answers, pairs.pairs),
    *(predict.predict, review.review),
    sweep.sweep,
):
    cli.add_command(command)
