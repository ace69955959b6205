package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Answer is the answer of an address to a GET.
type Answer struct {
	Status int
	Body   []byte
}

// ErrNoRequest: no request is sent, for example because a check runs on a file.
var ErrNoRequest = errors.New("no request is sent")

// ErrNoCredentials: the Secret of a check cannot be used, so no request is sent.
var ErrNoCredentials = errors.New("no request is sent")

// requestInterval is the interval of requests. Unlike objects, addresses cannot be watched.
const requestInterval = 5 * time.Second

// needsRequest reports whether a check needs a request to an address.
func needsRequest(check drydockv1.HealthCheck) bool {
	return check.Prometheus != nil || check.HTTP != nil
}

func evaluateHTTP(check drydockv1.HTTPCheck, objects Objects) (Result, error) {
	wanted := int(check.Status)
	if wanted == 0 {
		wanted = 200
	}
	if err := withoutUser(check.URL); err != nil {
		return Result{}, fmt.Errorf("%w: http.url: %w", ErrInvalid, err)
	}
	answer, err := objects.Fetch(check.URL, check.SecretRef)
	if err != nil {
		return unanswered(check.URL, err), nil
	}
	if answer.Status != wanted {
		return Result{Reason: ReasonUnexpectedAnswer, Message: fmt.Sprintf("%s answers %d, not %d", redacted(check.URL), answer.Status, wanted)}, nil
	}
	return Result{Healthy: true, Message: fmt.Sprintf("%s answers %d", redacted(check.URL), wanted)}, nil
}

func unanswered(address string, err error) Result {
	if errors.Is(err, ErrNoRequest) {
		return Result{Reason: ReasonNoRequest, Message: fmt.Sprintf("%s: %s", redacted(address), err)}
	}
	if errors.Is(err, ErrNoCredentials) {
		return Result{Reason: ReasonNoCredentials, Message: fmt.Sprintf("%s: %s", redacted(address), err)}
	}
	return Result{Reason: ReasonUnreachable, Message: fmt.Sprintf("%s does not answer: %s", redacted(address), err)}
}

// withoutUser refuses an address with a user or password, which would be stored wherever the check is.
func withoutUser(address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return errors.New("is not an address") // the cause has the address
	}
	if parsed.User != nil {
		return errors.New("must not have a user or password; name a Secret in secretRef")
	}
	return nil
}

// redacted is an address without the parts that may be secret: user, password and query.
func redacted(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "the address"
	}
	parsed.User, parsed.RawQuery = nil, ""
	return parsed.String()
}

// sample is one of the series of an instant vector, or a scalar; see https://prometheus.io/docs/prometheus/latest/querying/api/.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  []any             `json:"value"`
}

// evaluatePrometheus requires every sample to be as expected, and at least one: a query without samples is misspelt, or its target is not scraped.
func evaluatePrometheus(check drydockv1.PrometheusCheck, objects Objects) (Result, error) {
	wanted, err := expectation(check.Expected)
	if err != nil {
		return Result{}, err
	}
	address, err := queryURL(check)
	if err != nil {
		return Result{}, err
	}
	answer, err := objects.Fetch(address, check.SecretRef)
	if err != nil {
		return unanswered(address, err), nil
	}
	samples, err := readSamples(answer)
	if err != nil {
		return Result{Reason: ReasonUnexpectedAnswer, Message: fmt.Sprintf("%s: %s", redacted(address), err)}, nil
	}
	if len(samples) == 0 {
		return Result{Reason: ReasonNothingFound, Message: fmt.Sprintf("%s gives no sample", check.Query)}, nil
	}
	var blockers []drydockv1.Blocker
	for _, s := range samples {
		value, err := s.number()
		if err != nil {
			return Result{Reason: ReasonUnexpectedAnswer, Message: fmt.Sprintf("%s: %s", redacted(address), err)}, nil
		}
		if !wanted(value) {
			blockers = append(blockers, drydockv1.Blocker{
				Kind: "Sample", Name: s.name(), Reason: ReasonUnexpectedSample, Message: fmt.Sprintf("is %v, not %s", value, check.Expected),
			})
		}
	}
	return judged(fmt.Sprintf("%d samples of %s are %s", len(samples), check.Query, check.Expected), blockers), nil
}

// queryURL returns an instant query that skips samples older than the check allows.
func queryURL(check drydockv1.PrometheusCheck) (string, error) {
	if err := withoutUser(check.URL); err != nil {
		return "", fmt.Errorf("%w: prometheus.url: %w", ErrInvalid, err)
	}
	parsed, err := url.Parse(check.URL)
	if err != nil {
		return "", fmt.Errorf("%w: prometheus.url: %w", ErrInvalid, err)
	}
	address := parsed.JoinPath("api/v1/query")
	address.RawQuery = url.Values{
		"query": {check.Query}, "timeout": {"5s"}, "lookback_delta": {fmt.Sprintf("%ds", maxAge(check)/time.Second)},
	}.Encode()
	return address.String(), nil
}

// maxAge is PrometheusCheck.maxAgeSeconds, with its default for checks that were not read through the API.
func maxAge(check drydockv1.PrometheusCheck) time.Duration {
	if check.MaxAgeSeconds == 0 {
		return time.Minute
	}
	return time.Duration(check.MaxAgeSeconds) * time.Second
}

func readSamples(answer Answer) ([]sample, error) {
	var response struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			ResultType string          `json:"resultType"`
			Result     json.RawMessage `json:"result"`
		} `json:"data"`
	}
	err := json.Unmarshal(answer.Body, &response)
	if err != nil || answer.Status != 200 || response.Status != "success" {
		return nil, fmt.Errorf("answers %d, no samples%s", answer.Status, because("", response.Error))
	}
	switch response.Data.ResultType {
	case "vector":
		var samples []sample
		err = json.Unmarshal(response.Data.Result, &samples)
		return samples, err
	case "scalar":
		scalar := sample{}
		err = json.Unmarshal(response.Data.Result, &scalar.Value)
		return []sample{scalar}, err
	}
	return nil, fmt.Errorf("the query gives a %s, not an instant vector or a scalar", response.Data.ResultType)
}

func (s sample) number() (float64, error) {
	if len(s.Value) == 2 {
		if written, ok := s.Value[1].(string); ok {
			return strconv.ParseFloat(written, 64)
		}
	}
	return 0, fmt.Errorf("sample %s has no value", s.name())
}

// name is the series, e.g. {"job":"api"}; JSON sorts the labels.
func (s sample) name() string {
	if len(s.Metric) == 0 {
		return "scalar"
	}
	labels, err := json.Marshal(s.Metric)
	if err != nil {
		return "unnamed"
	}
	return string(labels)
}

// expectation reads a comparison such as ">= 0.99". NaN never meets an expectation.
func expectation(expected string) (func(float64) bool, error) {
	operator := strings.TrimRight(expected, "0123456789.- ")
	number, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(expected, operator)), 64)
	comparisons := map[string]func(float64) bool{
		"==": func(v float64) bool { return v == number },
		"!=": func(v float64) bool { return v != number },
		"<":  func(v float64) bool { return v < number },
		"<=": func(v float64) bool { return v <= number },
		">":  func(v float64) bool { return v > number },
		">=": func(v float64) bool { return v >= number },
	}
	compare, known := comparisons[operator]
	if err != nil || !known {
		return nil, fmt.Errorf("%w: prometheus.expected: %q is not a comparison with a number, such as \">= 0.99\"", ErrInvalid, expected)
	}
	return func(v float64) bool { return !math.IsNaN(v) && compare(v) }, nil
}
