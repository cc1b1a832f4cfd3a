"""The lines of a run."""

from ratchet.tasks.reporter import ProgressReporter


def test_what_a_model_wrote_commands_no_terminal(capsys):
    ProgressReporter().warning("They end: “\x1b]0;title\x07\x00 \x9b31m”\tα")
    assert capsys.readouterr().out == "! They end: “\\x1b]0;title\\x07\\x00 \\x9b31m”\tα\n"
