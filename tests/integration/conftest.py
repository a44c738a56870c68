"""The fixtures, and what tests ask for beside them."""
from fixtures import (USE_KAFKA, client, kafka, kagamid, make_kafka, make_kagamid, peers, shared_broker, topic,  # noqa: F401 pylint: disable=unused-import
                      unique_topic)
