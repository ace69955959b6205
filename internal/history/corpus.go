package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/api/temporalproto"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Suffix of files with runs: gzip of one JSON document a run.
const Suffix = ".json.gz"

// keptRun is a run as a file stores it.
type keptRun struct {
	WorkflowID string          `json:"workflowId"`
	RunID      string          `json:"runId"`
	History    json.RawMessage `json:"history"`
}

// Save writes runs to a file, without the names of processes and machines.
func Save(path string, runs []Run) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(compressed)
	for _, run := range runs {
		for _, event := range run.Events {
			anonymize(event.ProtoReflect())
		}
		history, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(&historypb.History{Events: run.Events})
		if err != nil {
			return err
		}
		if err := encoder.Encode(keptRun{WorkflowID: run.WorkflowID, RunID: run.RunID, History: history}); err != nil {
			return err
		}
	}
	return compressed.Close()
}

// anonymize drops the identities of clients and workers, which name a process and its machine.
func anonymize(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Name() == "identity" && field.Kind() == protoreflect.StringKind:
			message.Set(field, protoreflect.ValueOfString("anonymous"))
		case field.Kind() == protoreflect.MessageKind && !field.IsList() && !field.IsMap():
			anonymize(value.Message())
		}
		return true
	})
}

// Load reads the runs of a file.
func Load(path string) (runs []Run, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for decoder := json.NewDecoder(content); ; {
		var kept keptRun
		if err := decoder.Decode(&kept); errors.Is(err, io.EOF) {
			return runs, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		history, err := client.HistoryFromJSON(strings.NewReader(string(kept.History)), client.HistoryJSONOptions{})
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, kept.WorkflowID, err)
		}
		runs = append(runs, Run{WorkflowID: kept.WorkflowID, RunID: kept.RunID, Events: history.Events})
	}
}
