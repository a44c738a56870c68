// franz-go as a peer program: JSON commands on stdin, one a line, an answer a line on stdout. ../README.md says which.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const longValue = 4096

type record struct {
	Key       []byte               `json:"key"`
	Value     []byte               `json:"value"`
	ValueFile string               `json:"value_file"`
	Headers   [][2]json.RawMessage `json:"headers"`
	Timestamp *int64               `json:"timestamp"`
}

type command struct {
	Op              string             `json:"op"`
	ID              string             `json:"id"`
	Bootstrap       string             `json:"bootstrap"`
	Topic           string             `json:"topic"`
	Partition       *int32             `json:"partition"`
	Acks            string             `json:"acks"`
	Idempotent      *bool              `json:"idempotent"`
	Compression     string             `json:"compression"`
	TransactionalID string             `json:"transactional_id"`
	LingerMs        *int64             `json:"linger_ms"`
	DeliveryMs      int64              `json:"delivery_timeout_ms"`
	MaxRequestBytes int32              `json:"max_request_bytes"`
	Records         []record           `json:"records"`
	From            *int64             `json:"from"`
	Isolation       string             `json:"isolation"`
	TimeoutMs       int64              `json:"timeout_ms"`
	Partitions      int32              `json:"partitions"`
	Configs         map[string]*string `json:"configs"`
	Count           int                `json:"count"`
	Before          int64              `json:"before"`
	At              json.RawMessage    `json:"at"`
}

type answer map[string]any

var errUnsupported = errors.New("unsupported")
var producers = map[string]*kgo.Client{}

func errorFields(err error) answer {
	var e *kerr.Error
	if errors.As(err, &e) {
		return answer{"code": e.Code, "name": e.Message, "message": err.Error()}
	}
	return answer{"code": -1, "name": fmt.Sprintf("%T", err), "message": err.Error()}
}

// ---- Producing ----

func openProducer(c *command) error {
	codecs := map[string]kgo.CompressionCodec{"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	linger := int64(5)
	if c.LingerMs != nil {
		linger = *c.LingerMs
	}
	options := []kgo.Opt{kgo.SeedBrokers(c.Bootstrap), kgo.ProducerBatchCompression(codecs[c.Compression]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(time.Duration(linger) * time.Millisecond)}
	if c.DeliveryMs != 0 { // it counts from the record's timestamp, so not for old ones
		options = append(options, kgo.RecordDeliveryTimeout(time.Duration(c.DeliveryMs)*time.Millisecond))
	}
	if c.MaxRequestBytes != 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(c.MaxRequestBytes))
	}
	idempotent := c.Idempotent == nil || *c.Idempotent
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
		switch c.Acks {
		case "0":
			options = append(options, kgo.RequiredAcks(kgo.NoAck()))
		case "1":
			options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
		}
	}
	if c.TransactionalID != "" {
		options = append(options, kgo.TransactionalID(c.TransactionalID))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	producers[c.ID] = client
	return nil
}

func send(c *command, out answer) error {
	client := producers[c.ID]
	if client == nil {
		return fmt.Errorf("no producer %q", c.ID)
	}
	results := make([]answer, len(c.Records))
	for i, r := range c.Records {
		rec := &kgo.Record{Topic: c.Topic, Key: r.Key, Value: r.Value}
		if c.Partition != nil {
			rec.Partition = *c.Partition
		}
		if r.Timestamp != nil {
			rec.Timestamp = time.UnixMilli(*r.Timestamp)
		}
		if r.ValueFile != "" {
			value, err := os.ReadFile(r.ValueFile)
			if err != nil {
				return err
			}
			rec.Value = value
		}
		for _, h := range r.Headers {
			header := kgo.RecordHeader{}
			if err := errors.Join(json.Unmarshal(h[0], &header.Key), json.Unmarshal(h[1], &header.Value)); err != nil {
				return err
			}
			rec.Headers = append(rec.Headers, header)
		}
		client.Produce(context.Background(), rec, func(at *kgo.Record, err error) {
			if err != nil {
				results[i] = answer{"error": errorFields(err)}
			} else {
				results[i] = answer{"offset": at.Offset, "partition": at.Partition, "timestamp": at.Timestamp.UnixMilli()}
			}
		})
	}
	err := client.Flush(context.Background())
	out["results"] = results
	return err
}

// ---- Consuming ----

func encodeValue(value []byte) any {
	if value == nil {
		return nil
	}
	if len(value) <= longValue {
		return value // JSON makes base64 of it
	}
	sum := sha256.Sum256(value)
	return answer{"size": len(value), "sha256": hex.EncodeToString(sum[:])}
}

// franz-go shows no position. So the end is known from ListOffsets, and the reading stops at it or when nothing came for a while: what stands
// before the end may be control records, which are not shown.
func read(ctx context.Context, c *command, out answer) error {
	partition := int32(0)
	if c.Partition != nil {
		partition = *c.Partition
	}
	level, committed := kgo.ReadUncommitted(), c.Isolation == "read_committed"
	if committed {
		level = kgo.ReadCommitted()
	}
	if c.TimeoutMs == 0 {
		c.TimeoutMs = 30000
	}
	start := kgo.NewOffset().AtStart()
	if c.From != nil {
		start = kgo.NewOffset().At(*c.From)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap), kgo.FetchIsolationLevel(level), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.FetchMaxBytes(64<<20), kgo.FetchMaxPartitionBytes(32<<20), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: {partition: start}}))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	list := admin.ListEndOffsets
	if committed {
		list = admin.ListCommittedOffsets
	}
	ends, err := list(ctx, c.Topic)
	if err != nil {
		return err
	}
	end, ok := ends.Lookup(c.Topic, partition)
	if !ok || end.Err != nil {
		return fmt.Errorf("no end offset of %s-%d: %w", c.Topic, partition, end.Err)
	}
	records := []answer{}
	last, quiet, deadline := int64(-1), time.Now().Add(8*time.Second), time.Now().Add(time.Duration(c.TimeoutMs)*time.Millisecond)
	for last+1 < end.Offset && time.Now().Before(deadline) && time.Now().Before(quiet) {
		poll, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		fetches := client.PollFetches(poll)
		cancel()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return e.Err
			}
		}
		fetches.EachRecord(func(r *kgo.Record) {
			headers := [][2]any{}
			for _, h := range r.Headers {
				headers = append(headers, [2]any{h.Key, encodeBytes(h.Value)})
			}
			kind := "CreateTime"
			if r.Attrs.TimestampType() == 1 {
				kind = "LogAppendTime"
			}
			records = append(records, answer{"offset": r.Offset, "timestamp": r.Timestamp.UnixMilli(), "timestamp_type": kind,
				"leader_epoch": r.LeaderEpoch, "key": encodeValue(r.Key), "value": encodeValue(r.Value), "headers": headers})
			last, quiet = r.Offset, time.Now().Add(1500*time.Millisecond)
		})
	}
	out["records"], out["end"] = records, end.Offset
	return nil
}

func encodeBytes(value []byte) any {
	if value == nil {
		return nil
	}
	return value
}

// ---- Admin ----

func listOffset(ctx context.Context, admin *kadm.Client, c *command, partition int32, out answer) error {
	var at string
	var listed kadm.ListedOffsets
	var err error
	if json.Unmarshal(c.At, &at) != nil {
		var ms int64
		if err = json.Unmarshal(c.At, &ms); err != nil {
			return err
		}
		listed, err = admin.ListOffsetsAfterMilli(ctx, ms, c.Topic)
	} else if at == "earliest" {
		listed, err = admin.ListStartOffsets(ctx, c.Topic)
	} else if at == "latest" {
		listed, err = admin.ListEndOffsets(ctx, c.Topic)
	} else {
		listed, err = admin.ListMaxTimestampOffsets(ctx, c.Topic)
	}
	if err != nil {
		return err
	}
	found, _ := listed.Lookup(c.Topic, partition)
	out["offset"], out["timestamp"] = found.Offset, found.Timestamp
	return found.Err
}

func runAdmin(ctx context.Context, c *command, out answer) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap), kgo.RetryTimeout(15*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	partition := int32(0)
	if c.Partition != nil {
		partition = *c.Partition
	}
	switch c.Op {
	case "admin.create_topic":
		if c.Partitions == 0 {
			c.Partitions = 1
		}
		created, err := admin.CreateTopic(ctx, c.Partitions, 1, c.Configs, c.Topic)
		out["topic_id"] = created.ID.String()
		return err
	case "admin.delete_topic":
		_, err := admin.DeleteTopic(ctx, c.Topic)
		return err
	case "admin.create_partitions":
		created, err := admin.UpdatePartitions(ctx, c.Count, c.Topic)
		if err != nil {
			return err
		}
		return created.Error()
	case "admin.topics":
		details, err := admin.ListTopics(ctx)
		if err != nil {
			return err
		}
		topics := answer{}
		for _, t := range details.Sorted() {
			topics[t.Topic] = answer{"partitions": len(t.Partitions), "topic_id": t.ID.String()}
		}
		out["topics"] = topics
		return nil
	case "admin.cluster":
		metadata, err := admin.BrokerMetadata(ctx)
		out["cluster_id"], out["brokers"] = metadata.Cluster, len(metadata.Brokers)
		return err
	case "admin.configs":
		described, err := admin.DescribeTopicConfigs(ctx, c.Topic)
		if err != nil {
			return err
		}
		resource, err := described.On(c.Topic, nil)
		if err != nil {
			return err
		}
		configs := answer{}
		for _, config := range resource.Configs {
			configs[config.Key] = config.Value
		}
		out["configs"] = configs
		return resource.Err
	case "admin.alter_configs":
		alter := []kadm.AlterConfig{}
		for name, value := range c.Configs {
			op := kadm.SetConfig
			if value == nil {
				op = kadm.DeleteConfig
			}
			alter = append(alter, kadm.AlterConfig{Op: op, Name: name, Value: value})
		}
		altered, err := admin.AlterTopicConfigs(ctx, alter, c.Topic)
		if err != nil {
			return err
		}
		resource, err := altered.On(c.Topic, nil)
		if err != nil {
			return err
		}
		return resource.Err
	case "admin.list_offset":
		return listOffset(ctx, admin, c, partition, out)
	case "admin.delete_records":
		offsets := kadm.Offsets{}
		offsets.AddOffset(c.Topic, partition, c.Before, -1)
		deleted, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return err
		}
		found, _ := deleted.Lookup(c.Topic, partition)
		out["low_watermark"] = found.LowWatermark
		return found.Err
	case "admin.producers":
		topics := kadm.TopicsSet{}
		topics.Add(c.Topic, partition)
		described, err := admin.DescribeProducers(ctx, topics)
		if err != nil {
			return err
		}
		list := []answer{}
		for _, p := range described.SortedProducers() {
			list = append(list, answer{"producer_id": p.ProducerID, "producer_epoch": p.ProducerEpoch, "last_sequence": p.LastSequence})
		}
		out["producers"] = list
		return nil
	}
	return errUnsupported
}

// ---- Commands ----

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/twmb/franz-go" {
				return d.Version
			}
		}
	}
	return "unknown"
}

func run(c *command, out answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	switch c.Op {
	case "hello":
		out["client"], out["version"] = "franz-go", version()
		out["features"] = []string{"idempotent", "transactions", "admin", "max_timestamp", "producers", "gzip", "snappy", "lz4", "zstd"}
		return nil
	case "producer.open":
		return openProducer(c)
	case "producer.send":
		return send(c, out)
	case "producer.begin":
		return producers[c.ID].BeginTransaction()
	case "producer.commit":
		return producers[c.ID].EndTransaction(ctx, kgo.TryCommit)
	case "producer.abort":
		return producers[c.ID].EndTransaction(ctx, kgo.TryAbort)
	case "producer.close":
		producers[c.ID].Close()
		delete(producers, c.ID)
		return nil
	case "consumer.read":
		return read(ctx, c, out)
	}
	return runAdmin(ctx, c, out)
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 64<<20)
	answers := json.NewEncoder(os.Stdout)
	for in.Scan() {
		c, out := &command{}, answer{"ok": true}
		err := json.Unmarshal(in.Bytes(), c)
		if err == nil {
			err = run(c, out)
		}
		if errors.Is(err, errUnsupported) {
			out = answer{"ok": false, "unsupported": true}
		} else if err != nil {
			out = answer{"ok": false, "error": errorFields(err)}
		}
		if err := answers.Encode(out); err != nil {
			os.Exit(1)
		}
	}
}
