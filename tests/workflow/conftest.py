"""Reports without their chart."""

from tests.no_chart import no_chart_in_reports

__all__ = ["no_chart_in_reports"]
