package precache_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/precache"
)

var release = precache.Release{Upstream: "https://updates.example.com/graph", Channel: "stable-4.18", Version: "4.18.3"}

func TestTheImageOfAReleaseIsThePayloadOfItsNode(t *testing.T) {
	for name, test := range map[string]struct{ graph, image, problem string }{
		"one of several nodes":    {`{"nodes":[{"version":"4.18.2","payload":"release:2"},{"version":"4.18.3","payload":"quay.io/release@sha256:3d5800990dee7cd4727d3fe238a97e2d2976d3808fc925ada29c559a47e2e1ef","metadata":{"url":"x"}}],"edges":[[0,1]]}`, "quay.io/release@sha256:3d5800990dee7cd4727d3fe238a97e2d2976d3808fc925ada29c559a47e2e1ef", ""},
		"twice the same":          {`{"nodes":[{"version":"4.18.3","payload":"release:3"},{"version":"4.18.3","payload":"release:3"}]}`, "release:3", ""},
		"another version":         {`{"nodes":[{"version":"4.18.30","payload":"release:3"}]}`, "", "unable to find version 4.18.3"},
		"no payload":              {`{"nodes":[{"version":"4.18.3"}]}`, "", "unable to find version 4.18.3"},
		"no nodes":                {`{}`, "", "unable to find version 4.18.3"},
		"two payloads":            {`{"nodes":[{"version":"4.18.3","payload":"release:3"},{"version":"4.18.3","payload":"release:4"}]}`, "", "unable to choose between 2 payloads of version 4.18.3"},
		"a payload with an image": {`{"nodes":[{"version":"4.18.3","payload":"not an image"}]}`, "", "unable to use the payload of version 4.18.3, which is not the name of an image,"},
		"no JSON":                 {`<html>`, "", "unable to read nodes"},
		"other JSON":              {`{"nodes":{"version":"4.18.3"}}`, "", "unable to read nodes"},
		"null":                    {`null`, "", "unable to find version 4.18.3"},
	} {
		image, err := release.ImageIn([]byte(test.graph))
		require.Equal(t, test.image, image, name)
		if test.problem != "" {
			require.EqualError(t, err, test.problem, name)
		}
	}
}

func TestTheAddressOfAGraphHasTheChannel(t *testing.T) {
	for upstream, want := range map[string]string{
		"https://updates.example.com/graph":              "https://updates.example.com/graph?channel=stable-4.18",
		"http://10.0.0.1:8080/graph?arch=amd64#fragment": "http://10.0.0.1:8080/graph?arch=amd64&channel=stable-4.18",
		"https://[fd00::1]/graph":                        "https://[fd00::1]/graph?channel=stable-4.18",
	} {
		address, err := precache.Release{Upstream: upstream, Channel: "stable-4.18"}.Address()
		require.NoError(t, err)
		require.Equal(t, want, address.String())
	}
	address, err := precache.Release{Upstream: release.Upstream, Channel: "a&b=c"}.Address()
	require.NoError(t, err)
	require.Equal(t, "a&b=c", address.Query().Get("channel"), "a channel is not more than a channel")
	for _, upstream := range []string{"", "updates.example.com/graph", "file:///etc/passwd", "https://", "https://ann:s3cret@updates.example.com", "https://%zz"} {
		_, err := precache.Release{Upstream: upstream}.Address()
		require.ErrorContains(t, err, "spec.upstream", upstream)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

// FuzzUpdateGraph reads the answer of a server: an error, or an image that is in the answer.
func FuzzUpdateGraph(f *testing.F) {
	f.Add([]byte(`{"nodes":[{"version":"4.18.3","payload":"release:3"}]}`))
	f.Add([]byte(`{"nodes":[{"version":4,"payload":["x"]}],"NODES":null}`))
	f.Fuzz(func(t *testing.T, graph []byte) {
		image, err := release.ImageIn(graph)
		require.Equal(t, err == nil, image != "")
		if err == nil {
			require.NotContains(t, image, "\n")
		}
	})
}
