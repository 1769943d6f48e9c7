package onepass

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// NewClient returns what dynamic.NewForConfigAndClient does, whose objects and watches are read in one pass: client-go reads the bytes of
// an event eight times. docs/design/0008-reading-reviews.md has what that saves.
func NewClient(config *rest.Config, client *http.Client) (dynamic.Interface, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion = nil
	config.APIPath = "/every-request-has-an-absolute-path"
	config.NegotiatedSerializer = serializer{config.NegotiatedSerializer}
	requests, err := rest.UnversionedRESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("cannot make a REST client: %w", err)
	}
	return dynamic.New(requests), nil
}

// serializer is that of a dynamic client, and reads JSON in one pass.
type serializer struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes returns those of a dynamic client, where events in JSON are read by framer and event.
func (s serializer) SupportedMediaTypes() []runtime.SerializerInfo {
	out := slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes())
	for i := range out {
		if stream := out[i].StreamSerializer; stream != nil && out[i].MediaType == runtime.ContentTypeJSON {
			out[i].StreamSerializer = &runtime.StreamSerializerInfo{EncodesAsText: true, Serializer: event{stream.Serializer}, Framer: framer{stream.Framer}}
			out[i].Serializer = object{out[i].Serializer}
		}
	}
	return out
}

// object reads objects.
type object struct{ runtime.Serializer }

// Decode an object as the dynamic client does: into is an Unstructured, or nil for a new one. Everything else, and what is no object,
// is left to the serializer of the dynamic client: statuses, lists, and bytes that it has an error for.
func (o object) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	u, ok := into.(*unstructured.Unstructured)
	decode := Object
	if into == nil { // only of events
		u, decode = &unstructured.Unstructured{}, Outline
	} else if !ok {
		return o.Serializer.Decode(data, defaults, into)
	}
	read, err := decode(data)
	version, _ := read["apiVersion"].(string)
	kind, _ := read["kind"].(string)
	_, list := read["items"].([]any)
	of, wrong := schema.ParseGroupVersion(version)
	if err != nil || wrong != nil || version == "" || kind == "" || list || of.Group == "" && kind == "Status" {
		return o.Serializer.Decode(data, defaults, into)
	}
	u.Object = read
	gvk := of.WithKind(kind)
	return u, &gvk, nil
}

// event reads events of watches.
type event struct{ runtime.Serializer }

// Decode an event as the API server writes it, whose object is the rest of data. What is written otherwise is left to the serializer of the
// dynamic client.
func (e event) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if out, ok := into.(*metav1.WatchEvent); ok {
		if kind, object, ok := parts(data); ok {
			out.Type, out.Object.Raw = kind, object
			return out, nil, nil
		}
	}
	return e.Serializer.Decode(data, defaults, into)
}

// parts of an event, which is a JSON value. object may be followed by other fields of the event, which the API server writes none of: to
// find its end would be to read it.
func parts(event []byte) (kind string, object []byte, ok bool) {
	rest, begins := bytes.CutPrefix(event, []byte(`{"type":"`))
	name, rest, cut := bytes.Cut(rest, []byte(`","object":`))
	object, ends := bytes.CutSuffix(rest, []byte(`}`))
	return string(name), object, begins && cut && ends && !bytes.ContainsAny(name, `"\`)
}

// framer cuts a stream into events.
type framer struct{ runtime.Framer }

// NewFrameReader returns a reader whose every read is one JSON value of r, or a part of it with io.ErrShortBuffer.
func (framer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &frames{stream: r, in: jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// frames of a stream.
type frames struct {
	stream io.Closer
	in     *jsontext.Decoder
	// rest of a value that has been read in part.
	rest []byte
}

// Read a value, or what is left of one.
func (f *frames) Read(into []byte) (int, error) {
	if len(f.rest) == 0 {
		v, err := f.in.ReadValue()
		if err != nil {
			return 0, ended(err)
		}
		f.rest = v
	}
	n := copy(into, f.rest)
	if f.rest = f.rest[n:]; len(f.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// Close the stream.
func (f *frames) Close() error { return f.stream.Close() }

// ended is the error of a stream that client-go takes for its end, or a failure.
func ended(err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, end) {
			return end
		}
	}
	return err
}
