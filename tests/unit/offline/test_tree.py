"""Documents as trees: positions, aliases and bounds; and YAML that is none, in a sentence."""

import pytest

from modelplane.offline.files import tree
from modelplane.offline.files.diagnostics import Place, Unreadable
from modelplane.offline.files.tree import Document, Duplicate, parse_documents


def read(text):
    return [
        each.node.to_plain() if isinstance(each, Document) else each.message for each in parse_documents(text)
    ]


def places(text, *path, key=False):
    [document] = parse_documents(text)
    return document.node.place_of(path, key=key)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("# only a comment\n---\n# and another\n", [], id="comments"),
        pytest.param("a: 1\n---\na: 2\n", [{"a": 1}, {"a": 2}], id="two documents"),
        pytest.param("--- {a: 1}\n--- {a: 2}\n", [{"a": 1}, {"a": 2}], id="documents beside their dashes"),
        pytest.param("a: |\n  ---x\n  --- y\n", [{"a": "---x\n--- y\n"}], id="dashes within a text"),
        pytest.param("\ufeffa: 1\n", [{"a": 1}], id="a byte order mark"),
        pytest.param("a: 1\r\nb: 2\r\n", [{"a": 1, "b": 2}], id="lines as Windows ends them"),
        pytest.param('{\n\t"a": [1, {"b": null}]\n}', [{"a": [1, {"b": None}]}], id="JSON with tabs"),
        pytest.param(r'{"a": "\ud83d\ude00\/\\ud83d"}', [{"a": "😀/\\ud83d"}], id="JSON with escapes"),
        pytest.param(
            "1: a\nyes: b\n1.5: c\n1e3: d\n",
            [{"1": "a", "true": "b", "1.5": "c", "1000": "d"}],
            id="keys that are not texts become texts, as with kubectl",
        ),
        pytest.param("a: &x {p: 1}\nb: *x\n", [{"a": {"p": 1}, "b": {"p": 1}}], id="an alias"),
        pytest.param(
            "a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\n",
            [{"a": {"p": 1, "q": 2}, "b": {"q": 3, "p": 1}}],
            id="a merge, in which the own value wins",
        ),
        pytest.param(
            "a: &x {p: 1}\nc: &y {p: 2, r: 3}\nb: {<<: [*x, *y]}\n",
            [{"a": {"p": 1}, "c": {"p": 2, "r": 3}, "b": {"p": 1, "r": 3}}],
            id="a merge of several, in which the first wins",
        ),
        pytest.param("{'<<': {a: 1}}", [{"<<": {"a": 1}}], id="a quoted key that is no merge"),
        pytest.param("a: !!str 1\nb: !!int '3'\nc: !foo x\n", [{"a": "1", "b": 3, "c": "x"}], id="tags"),
        pytest.param("a: !!set {x, z}", [{"a": {"x": None, "z": None}}], id="a set"),
    ],
)
def test_a_text_is_read_as_kubectl_reads_it(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a:\n\tb: 1\n", "a tab cannot indent YAML: use spaces", id="a tab"),
        pytest.param("a: @b\n", "a value cannot begin with @ unless it is in quotes", id="an at sign"),
        pytest.param(
            "a: b: c\n",
            'a ":" is not expected here: align the line with its neighbours, or put the value in quotes',
            id="two colons",
        ),
        pytest.param(
            "a:\n  b: 1\n c: 2\n",
            "the line is indented unlike its neighbours: align it with them",
            id="a line between two indentations",
        ),
        pytest.param(
            "a:\n  - b\n c: 2\n",
            "the line is indented unlike its neighbours: align it with them",
            id="a line further out than the list before it",
        ),
        pytest.param(
            "a: - b\n", 'a list cannot begin here: put each "- " on a line below its key', id="a list"
        ),
        pytest.param("a: 'b\n", "the quote is not closed: add the one at its end", id="a quote"),
        pytest.param("a: [b\n", 'the "[" is not closed: add a "," or the "]"', id="a bracket"),
        pytest.param("a: {b\n", 'the "{" is not closed: add a "," or the "}"', id="a brace"),
        pytest.param("a: 1\nb\n", 'the line is not part of a "name: value" pair: add the ": "', id="a word"),
        pytest.param("a: *b\n", "the alias *b is undefined: there is no &b before it", id="an alias"),
        pytest.param("a: &a {b: *a}", "the alias *a contains itself before it", id="a circle"),
        pytest.param("~: 1\n", "nothing cannot be the name of a field: use a word", id="no name"),
        pytest.param(
            "{a: b}: 1\n", "a mapping or list cannot be the name of a field: use a word", id="a mapping"
        ),
        pytest.param(
            "a: &x {b: 1}\n*x : 1\n",
            "a mapping or list cannot be the name of a field: use a word",
            id="an alias of a mapping as a name",
        ),
        pytest.param("a: .inf\n", ".inf is not a number in JSON: use a finite number", id="infinity"),
        pytest.param(
            "a: !!int x\n", "x does not match the tag's type int: remove the tag", id="a tag that lies"
        ),
        pytest.param(
            "{<<: 1}",
            "<< requires the alias of a mapping, or a list of such aliases",
            id="a merge of a number",
        ),
        pytest.param(
            "a: \x01\n", "this is not text: YAML doesn't allow control characters", id="a control character"
        ),
        pytest.param(
            'a: "\\q"\n',
            "unknown escape sequence: write \\\\ for a backslash, or use single quotes",
            id="an escape",
        ),
        pytest.param(
            'a: "C:\\Users"\n',
            "unknown escape sequence: write \\\\ for a backslash, or use single quotes",
            id="a path of Windows",
        ),
        pytest.param(
            "a:\n  b:1\n  c: 2\n",
            'a space is missing after the ":": add it',
            id="a name and its value in one",
        ),
        pytest.param(
            "a:\n\u00a0 b: 1\n  c: 2\n", "a no-break space cannot indent YAML: use plain spaces", id="a blank"
        ),
        pytest.param(
            'a: "b["c"]"\nd: 1\n',
            "the quoted text ends before this character: use the other kind of quotes inside, or write "
            'the text below "|"',
            id="quotes within quotes",
        ),
        *(
            pytest.param(
                text,
                "{{ starts a template, which is not a manifest: use the output of helm template",
                id=f"a template, {name}",
            )
            for name, text in (
                ("in the place of a value", "a: {{ .Values.a }}\n"),
                ("before the end of a value", "a: {{ .Values.a }}-b\n"),
                ("around lines", "{{- if .Values.a }}\na: 1\n{{- end }}\n"),
            )
        ),
        pytest.param(
            "[" * 101,
            ("values are nested more than 100 levels deep: no manifest needs that"),
            id="depth",
        ),
    ],
)
def test_what_is_no_yaml_is_told_in_a_sentence(text, message):
    assert read(text) == [message]


def test_a_document_that_cannot_be_read_does_not_hide_the_next():
    assert read("a: 1\n---\na:\n\tb: 1\n---\na: 2\n") == [
        {"a": 1},
        "a tab cannot indent YAML: use spaces",
        {"a": 2},
    ]


def test_the_place_of_a_fault_counts_from_the_beginning_of_the_file():
    [_, broken] = parse_documents("a: 1\n---\nb: 1\n\tc: 2\n")
    assert isinstance(broken, Unreadable)
    assert broken.place.line == 4


def test_a_key_that_is_there_twice_is_told_with_both_places():
    [document] = parse_documents("a: 1\nb: {c: 1, c: 2}\na: 3\nd: [x, {e: 1, e: 2}]\n")
    assert document.duplicates == (
        Duplicate(("b", "c"), Place(2, 11), Place(2, 5)),
        Duplicate(("a",), Place(3, 1), Place(1, 1)),
        Duplicate(("d", 1, "e"), Place(4, 15), Place(4, 9)),
    )


@pytest.mark.parametrize(
    ("path", "key", "place"),
    [
        pytest.param(("a", "b"), False, Place(2, 6), id="a word, where it stands"),
        pytest.param(("a", "b"), True, Place(2, 3), id="a name, where it stands"),
        pytest.param(("a",), False, Place(1, 1), id="a collection, where its name stands"),
        pytest.param(("c", 1), False, Place(5, 5), id="an item of a list"),
        pytest.param(("c", 1, "missing"), False, Place(5, 5), id="a missing field, where its object stands"),
        pytest.param(("x", "y"), False, Place(1, 1), id="a field of nothing, where the document begins"),
    ],
)
def test_a_value_knows_where_it_stands(path, key, place):
    assert places("a:\n  b: x\nc:\n  - d: 1\n  - e: 2\n", *path, key=key) == place


def test_aliases_that_expand_to_too_much_are_refused_without_being_expanded(monkeypatch):
    monkeypatch.setattr(tree, "MAX_VALUES", 1000)
    text = "a0: &a0 [x, x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
    )
    assert read(text) == [
        "the document contains more than 1,000 values with aliases expanded: split the document"
    ]


def test_aliases_do_not_nest_deeper_than_brackets():
    chain = "".join(f"a{level}: &a{level} [*a{level - 1}]\n" for level in range(1, 2000))
    assert read(f"a0: &a0 [x]\n{chain}") == [
        "values are nested more than 100 levels deep: no manifest needs that"
    ]


def test_a_hundred_levels_are_read():
    [value] = read("[" * 100 + "]" * 100)
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == 99
