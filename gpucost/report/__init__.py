"""Reports: the attributed tables as views for people and programs."""

from gpucost.render.view import ReportView
from gpucost.report.build import build
from gpucost.report.query import DIMENSIONS, Query, default_period

__all__ = ["DIMENSIONS", "Query", "ReportView", "build", "default_period"]
