"""Evidence of failures for a provider, as CSV and Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from gpucost.disk import write_text
from gpucost.publish.chargeback import file_names
from gpucost.questions.failures import Failures, Incident
from gpucost.records import grouped
from gpucost.render.formatting import figure_text
from gpucost.render.schema import table
from gpucost.render.view import Document, Texts

_NOTE = (
    "Observed in metrics of the cluster; the cause is not proven. Errors of applications, cordons and drains by the operator, "
    "spot reclaims and time without samples are left out. Coverage names the sources of prices. The CSV file has all figures."
)


def write_claims(answer: Document, folder: Path) -> str:
    """Write claim-PROVIDER.md and claim-PROVIDER.csv of the incidents with evidence in an answer of `failures`.

    The folder must exist. Returns a line that names the files. Raises GpucostError if one cannot be written.
    """
    found = cast(Failures, answer.data)
    files = []
    evidence = grouped((each.provider or "unknown", each) for each in found.incidents if each.is_evidence)
    names = file_names(evidence)
    for provider, incidents in evidence.items():
        document = Document(
            title=f"Observed failures: {provider}",
            subtitle=f"{found.period.start:%Y-%m-%d %H:%M} to {found.period.end:%Y-%m-%d %H:%M} UTC",
            currency=found.currency,
            sections=(
                Texts("Observed", tuple(_sentence(each, found.currency) for each in incidents), _NOTE),
            ),
            coverage=answer.coverage,
            name="failures",
            data=found,
            flat=table(incidents),
        )
        for suffix, content in (("md", document.page()), ("csv", document.csv())):
            files.append(folder / f"claim-{names[provider]}.{suffix}")
            write_text(content, files[-1])
    return f"wrote {', '.join(map(str, files)) or 'no claim: no incident has evidence'}"


def _sentence(incident: Incident, currency: str) -> str:
    start, end = incident.period.start, incident.period.end
    until = f" to {end:%Y-%m-%d %H:%M}" if end > start else ""
    devices = f" on {', '.join(incident.devices)}" if incident.devices else ""
    fault = "a hardware fault" if incident.devices else "a fault of the machine"
    cost = figure_text(incident.cost, "money", currency, 2)
    model = incident.gpu_model or "unknown GPU"
    return (
        f"{start:%Y-%m-%d %H:%M}{until} UTC, node {incident.node} of cluster {incident.cluster} ({model}): observed "
        f"{incident.description}{devices}, consistent with {fault}. In the period, "
        f"{incident.unavailable_gpu_hours:.1f} GPU-hours were unavailable; cost with lost work: {cost}."
    )
