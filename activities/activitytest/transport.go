package activitytest

import (
	"net/http"
)

type Transport func(*http.Request) (*http.Response, error)

func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
