"""What a node measures, in the text that Prometheus reads, beside what it measures of every Python process."""

import asyncio
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.core.metrics import Reading, Spread

MEDIA_TYPE = "text/plain; version=0.0.4"
"""Every Prometheus reads this, whatever else it asks for. Litestar adds the charset."""

# So many are written before the games have their turn: each line of text takes a few microseconds.
_WRITTEN_AT_ONCE = 4


class Exposition:
    """One API's own: nothing is shared with another server in the same process, or with what else uses the library."""

    def __init__(self) -> None:
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    async def text(self, readings: list[Reading]) -> bytes:
        """All of it."""
        # In a thread, because it reads files of the system's.
        parts = [await asyncio.to_thread(generate_latest, self._process)]
        for start in range(0, len(readings), _WRITTEN_AT_ONCE):
            parts.append(generate_latest(_Readings(readings[start : start + _WRITTEN_AT_ONCE])))
            await asyncio.sleep(0)
        return b"".join(parts)


class _Readings(Collector):
    """Readings as the library takes them."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        return map(_family, self._readings)


def _family(reading: Reading) -> Metric:
    metric = reading.metric
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    match metric.type:
        case "counter":
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "gauge":
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "histogram":
            family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in reading.values.items():
        if isinstance(family, HistogramMetricFamily):
            assert isinstance(value, Spread)
            family.add_metric(labels, _buckets(value), value.sum)
        else:
            assert not isinstance(value, Spread)
            family.add_metric(labels, value)
    return family


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    bounds = [*map(repr, map(float, spread.bounds)), "+Inf"]
    return list(zip(bounds, map(float, spread.cumulative), strict=True))
