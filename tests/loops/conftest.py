"""The fixtures of the loops are those of the integration tests."""
from fixtures import kafka, make_kafka, make_kagamid, peers, topic  # noqa: F401 pylint: disable=unused-import
