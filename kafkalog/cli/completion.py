"""`kafkalog completion SHELL`: a shell's completion script."""

import click
from click.shell_completion import get_completion_class

EPILOG = """\b
bash   eval "$(kafkalog completion bash)"   in ~/.bashrc
zsh    eval "$(kafkalog completion zsh)"    in ~/.zshrc
fish   kafkalog completion fish | source    in ~/.config/fish/config.fish
"""


@click.command(short_help="Print a shell's completion script for this command.", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script for this command."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "kafkalog", "_KAFKALOG_COMPLETE").source())
