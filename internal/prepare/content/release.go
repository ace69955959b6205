package content

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// ReleaseFile of a release image lists its components.
const ReleaseFile = "/release-manifests/image-references"

// imageStream is what is read of the ImageStream in ReleaseFile.
type imageStream struct {
	Kind string `json:"kind"`
	Spec struct {
		Tags []struct {
			Name string `json:"name"`
			From struct {
				Name string `json:"name"`
			} `json:"from"`
		} `json:"tags"`
	} `json:"spec"`
}

// Component is an image of a release.
type Component struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// ReadRelease reads the components of a release.
func ReadRelease(file io.Reader) ([]Component, error) {
	var stream imageStream
	if err := json.NewDecoder(file).Decode(&stream); err != nil {
		return nil, err
	}
	if stream.Kind != "ImageStream" || len(stream.Spec.Tags) == 0 {
		return nil, fmt.Errorf("has kind %q and %d tags, but an ImageStream with tags is expected", stream.Kind, len(stream.Spec.Tags))
	}
	var components []Component
	for _, tag := range stream.Spec.Tags {
		if tag.From.Name == "" {
			return nil, fmt.Errorf("tag %s has no image", tag.Name)
		}
		components = append(components, Component{Name: tag.Name, Image: tag.From.Name})
	}
	return components, nil
}

// Without returns the images of components whose name and image match none of the patterns.
func Without(components []Component, exclude []*regexp.Regexp) []string {
	var images []string
	for _, component := range components {
		excluded := slices.ContainsFunc(exclude, func(pattern *regexp.Regexp) bool {
			return pattern.MatchString(component.Name) || pattern.MatchString(component.Image)
		})
		if !excluded {
			images = append(images, component.Image)
		}
	}
	return images
}
