"""Reports: the attributed tables as views for people and programs."""

from gpucost.render.view import ReportView
from gpucost.report.build import build, build_each, workload_tables
from gpucost.report.query import DIMENSIONS, Query, default_period

__all__ = ["DIMENSIONS", "Query", "ReportView", "build", "build_each", "default_period", "workload_tables"]
