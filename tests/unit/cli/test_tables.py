from modelplane.api.report_tables import Columns, Table
from modelplane.cli import output

NAME = "a-cluster-with-a-name-that-is-wider-than-the-terminal"


def test_a_pipe_gets_each_row_on_one_line_without_colours(capsys):
    output.print_table(Table("Title", ("NAME", "COUNT"), ((NAME * 5, "1"), ("[bold]x", "2"))))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "",
        "Title:",
        f"{'NAME':{len(NAME) * 5}}  COUNT",
        f"{NAME * 5}  1",
        f"{'[bold]x':{len(NAME) * 5}}  2",
    ]


def test_a_terminal_folds_a_name_and_cuts_nothing(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    output.print_table(Table("", ("NAME", "COUNT"), ((NAME, "1"),)))
    printed = capsys.readouterr().out
    folded = "".join(line.split("  ")[0].strip() for line in printed.splitlines()[1:])
    assert folded == NAME
    assert "\x1b[3" not in printed


def test_a_table_without_rows_is_not_shown(capsys):
    output.print_table(Table("Title", ("NAME",), ()))
    assert capsys.readouterr().out == ""


def test_a_cell_changes_nothing_of_the_terminal(capsys):
    output.print_table(Table("", ("WHY",), (("\x1b[2Jgone\x07",),)))
    assert capsys.readouterr().out.splitlines() == ["WHY", " [2Jgone"]


def test_the_rows_that_a_table_leaves_out_are_counted(capsys):
    numbers = Columns[int](("NUMBER", str), ("SQUARE", lambda number: str(number**2)))
    output.print_table(numbers.tabulate("", range(1, 4), most=2))
    assert capsys.readouterr().out.splitlines() == [
        "NUMBER  SQUARE",
        "1       1",
        "2       4",
        "and 1 more: --all shows them",
    ]
