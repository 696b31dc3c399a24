"""The commands of lines for a shell, without a shell that runs them."""

import re
import shlex
from collections.abc import Iterator

_SEPARATORS = re.compile(r"^(?:[;|&]+|\(|\)|\n)$")
_ASSIGNMENT = re.compile(r"^\w+=")
_HEREDOC = re.compile(r"<<-?\s*'?(\w+)'?.*?\n.*?^\1$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*")
_SUBSTITUTED = re.compile(r"\$\(((?:[^()]|\([^()]*\))*)\)")
_KEYWORDS = {"do", "then", "else", "!", "time", "exec", "sudo", "{", "if", "while", "until"}
_CLAUSES = {"for", "done", "fi", "}", "esac", "case"}


def commands(text: str) -> Iterator[list[str]]:
    """Yield each command of a block as words, also those within ``$(...)``.

    Redirections and values of variables are left out. Raises ValueError if a quote is not closed.
    """
    text = _COMMENT.sub("", _HEREDOC.sub("", text.replace("\\\n", " ")))
    for inner in _SUBSTITUTED.findall(text):
        yield from commands(inner)
    text = _SUBSTITUTED.sub("SUBSTITUTED", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*_tokens(lexer), "\n"]:
        if not _SEPARATORS.match(token):
            words.append(token)
            continue
        if found := _command(words):
            yield found
        words = []


def _tokens(lexer: shlex.shlex) -> Iterator[str]:
    """Yield words and separators; a redirection takes the word after it along."""
    skipped = False
    for token in lexer:
        if re.fullmatch(r"[<>]+&?|&>+|>\|", token):
            skipped = True
        elif skipped and token != "\n":
            skipped = False
        elif token == "\n" or set(token) != {"\n"}:
            yield token
        else:
            yield "\n"


def _command(words: list[str]) -> list[str]:
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    return [] if words and words[0] in _CLAUSES else words
