"""The kind of each resource; tests/fleets/shares.py covers their shares of a GPU."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime

from gpucost.catalog import accelerators, devices, other_resources
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.questions.report import reading
from gpucost.questions.report.query import Query
from gpucost.render.view import ReportView
from gpucost.resources import pricing_dir
from gpucost.store.connection import Store
from tests.replay.cases.words import at
from tests.replay.result import by_pod, unpaid
from tests.text_tables import words

HOURS = 6
Answer = tuple[dict[str, float], ReportView]


def answer(config: Config, store: Store, cluster: str) -> Answer:
    """GPU-hours by pod, and the report."""
    period = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in (0, HOURS)))
    view = reading.report(config, store, Query(period=period, period_name="the day", clusters=(cluster,)))
    assert not unpaid(store)
    figures = by_pod(store, at(0) * 1000, at(HOURS) * 1000, cluster)
    return {key[2]: float(f.allocated_gpu_hours) for key, f in figures.items() if f.allocated_gpu_hours}, view


def messages(view: ReportView, code: str) -> list[str]:
    return [notice.message for notice in view.coverage.warnings if notice.code == code]


KINDS = words("""
    nvidia_com_gpu=device nvidia_com_gpu_shared=slot nvidia_com_mig_1g_5gb=slice nvidia_com_mig_2g_10gb_shared=slice
    nvidia_com_gpumem=memory nvidia_com_gpumem_percentage=percentage nvidia_com_gpucores=cores nvidia_com_priority=none
    volcano_sh_vgpu_number=virtual volcano_sh_vgpu_memory=memory aliyun_com_gpu_mem=total_memory aliyun_com_gpu_count=device
    amd_com_gpu=device amd_com_cpx_nps4=partition amd_com_spx_nps1=partition habana_ai_gaudi=device
    aws_amazon_com_neuron=device aws_amazon_com_neurondevice=device aws_amazon_com_neuroncore=core google_com_tpu=device
    huawei_com_Ascend910=device huawei_com_Ascend910B4_1=device huawei_com_Ascend310P=device
    huawei_com_Ascend310P_2c_1cpu=unsplit huawei_com_Ascend910B_memory=unsplit_part gpu_intel_com_i915=device
    gpu_intel_com_xe=device gpu_intel_com_xe_monitoring=none gpu_intel_com_millicores=unsplit_part cambricon_com_vmlu=unsplit
    cambricon_com_mlu_smlu_vmemory=unsplit_part hygon_com_dcunum=unsplit hygon_com_dcumem=unsplit_part cpu=none memory=none
    ephemeral_storage=none hugepages_2Mi=none pods=none attachable_volumes_aws_ebs=none vpc_amazonaws_com_pod_eni=none
    rdma_hca_shared_devices_a=none devices_kubevirt_io_kvm=none""")


def test_each_resource_has_one_kind() -> None:
    with (pricing_dir() / "resources.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = {name: {row["kind"] for row in rows if re.fullmatch(row["resource"], name)} for name in KINDS}
    assert found == {name: {kind} for name, kind in KINDS.items()}
    of_devices = {"device", "slot", "slice", "virtual", "partition", "core", "unsplit"}
    for pattern, expected in (
        (other_resources(), {name for name, kind in KINDS.items() if kind == "none"}),
        (accelerators(), {name for name, kind in KINDS.items() if kind != "none"}),
        (devices(), {name for name, kind in KINDS.items() if kind in of_devices}),
    ):
        assert {name for name in KINDS if re.fullmatch(pattern, name)} == expected
