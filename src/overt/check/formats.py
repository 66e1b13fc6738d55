"""Reports for other programs: JUnit XML, SARIF, annotations of GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from overt.check.mistakes import MISTAKES
from overt.check.report import Failure, Finding, Report

# What SARIF and GitHub call the kinds.
_LEVELS = {
    "mistake": ("error", "error"),
    "unknown": ("error", "error"),
    "risk": ("warning", "warning"),
    "convention": ("note", "notice"),
}


def junit(reports: Sequence[Report], failures: Sequence[Failure] = (), skipped: Sequence[Failure] = ()) -> str:
    """JUnit XML: one test case a candidate, failed where something is wrong, in error where it could not be checked."""
    failed = sum(not report.ok for report in reports)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuite name="overt check" tests="{len(reports) + len(failures) + len(skipped)}" failures="{failed}" '
        f'errors="{len(failures)}" skipped="{len(skipped)}">',
    ]
    for report in reports:
        lines.append(f'  <testcase classname="overt.check" name={quoteattr(_clean(report.target))}>')
        lines += [
            f"    <failure type={quoteattr(f.id)} message={quoteattr(_clean(f.message))}>"
            f"{escape(_clean(f.mend))}</failure>"
            for f in report.findings
            if f.kind in ("mistake", "unknown")
        ]
        lines += [f"    <system-out>{escape(_clean(report.text(width=100)))}</system-out>", "  </testcase>"]
    for outcome, several in (("error", failures), ("skipped", skipped)):
        for failure in several:
            lines += [
                f'  <testcase classname="overt.check" name={quoteattr(_clean(failure.target))}>',
                f"    <{outcome} type={quoteattr(failure.kind)} message={quoteattr(_clean(failure.message))}/>",
                "  </testcase>",
            ]
    return "\n".join([*lines, "</testsuite>", ""])


def _clean(text: str) -> str:
    """Without the control characters that XML forbids."""
    return "".join(
        c for c in text if c in "\n\t" or (c >= " " and c not in "\ufffe\uffff" and not "\ud800" <= c <= "\udfff")
    )


def sarif(reports: Sequence[Report], failures: Sequence[Failure]) -> dict[str, Any]:
    """A log of SARIF 2.1.0 (OASIS 2020): a rule for each id, a result for each finding, and the failures."""
    results = []
    rules: dict[str, dict[str, Any]] = {}
    for report in reports:
        for finding in report.findings:
            rules.setdefault(finding.id, _rule(finding))
            text = f"{report.target}: {finding.message}" + (f" {finding.mend}" if finding.mend else "")
            result: dict[str, Any] = {
                "ruleId": finding.id,
                "ruleIndex": list(rules).index(finding.id),
                "level": _LEVELS[finding.kind][0],
                "message": {"text": _clean(text)},
                "properties": {"certain": finding.certain, "target": _clean(report.target)},
            }
            place = _place(report, finding)
            if place:
                location = {"uri": _uri(place["file"])}
                region = {"startLine": place["line"]}
                result["locations"] = [{"physicalLocation": {"artifactLocation": location, "region": region}}]
            results.append(result)
    told = [{"level": "error", "message": {"text": _clean(f"{f.target}: {f.message}")}} for f in failures]
    driver = {"name": "overt check", "version": version("overt"), "rules": list(rules.values())}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not failures, "toolExecutionNotifications": told}],
        "results": results,
    }
    schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [run]}


def _rule(finding: Finding) -> dict[str, Any]:
    known = MISTAKES.get(finding.id)
    rule: dict[str, Any] = {"id": finding.id, "defaultConfiguration": {"level": _LEVELS[finding.kind][0]}}
    if known is not None:
        rule |= {
            "shortDescription": {"text": known.says},
            "help": {"text": known.mend or known.says},
            "helpUri": known.evidence,
        }
    return rule


def github(reports: Sequence[Report], failures: Sequence[Failure]) -> str:
    """Commands that GitHub's workflows read from standard output, and show beside the lines: one a finding."""
    lines = []
    for report in reports:
        for finding in report.findings:
            place = _place(report, finding)
            where = f"file={_property(_path(place['file']))},line={place['line']}," if place else ""
            text = f"{report.target}: {finding.message} {finding.mend}".strip()
            level = _LEVELS[finding.kind][1]
            lines.append(f"::{level} {where}title={_property('overt: ' + finding.id)}::{_data(text)}")
    lines += [f"::error title={_property('overt: not checked')}::{_data(f'{f.target}: {f.message}')}" for f in failures]
    return "\n".join(lines)


def _data(text: str) -> str:
    return _clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _place(report: Report, finding: Finding) -> dict[str, Any] | None:
    """File and line of a finding, or of the candidate where no line is known."""
    return finding.where or report.place


def _path(file: str) -> str:
    """Relative to the working directory, the root of a checkout as a rule; absolute where it lies elsewhere."""
    with suppress(OSError, ValueError):
        return Path(file).resolve().relative_to(Path.cwd()).as_posix()
    return str(Path(file).absolute())


def _uri(file: str) -> str:
    path = _path(file)
    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)
