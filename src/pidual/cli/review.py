"""`pidual review`: look at the labels that look wrong, in a browser."""

from pathlib import Path

import click

from ..errors import UsageError
from .common import say
from .options import run_argument


@click.command()
@run_argument
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port to listen on.  [default: a free one]"
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on. With any other than the default, everybody who can reach this machine there and knows "
    "the printed token can read and decide, and nothing is encrypted.",
)
@click.option(
    "--x",
    "x",
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Path of the inputs, or of the table if they are columns of it.  [default: where the run read them]",
)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Start with the worst label of each of N items, those of `pidual next RUN --gold N`. About 50 are enough to "
    "estimate how many labels are wrong; the worst ones alone are not.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def review(run: Path, port: int, host: str, x: Path | None, sample: int, no_browser: bool) -> None:
    """Review the labels of a RUN that look wrong, in a browser.

    Prints the address of the page; nobody can read or change anything without the token in it. Every decision is saved
    at once in reviews.sqlite of RUN, with reviewer and time; several people can review at once. Stop with Ctrl-C.
    `pidual export` then applies the decisions. Needs `pip install 'pidual[review]'`.
    """
    import webbrowser

    from ..api.run import Run

    opened = Run.open(run)
    try:
        from ..show.review.access import is_loopback
        from ..show.review.app import serve
    except ImportError as error:
        raise UsageError(f"The page needs a server ({error}); `pip install 'pidual[review]'` installs it.") from error

    def ready(address: str) -> None:
        if not is_loopback(host):
            say(f"Everybody who can reach {host} and has this address can read and decide; nothing is encrypted.")
        click.echo(address)
        say("Press Ctrl-C to stop; every decision is saved at once.")
        if not no_browser:
            webbrowser.open(address)

    n_decided = serve(opened, host, port, ready, x, sample)
    say(f"{n_decided:,} labels decided: {run / 'reviews.sqlite'}")
