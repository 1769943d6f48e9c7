package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// A Collection of resources of type R, whose fields are of type F.
type Collection[R, F any] struct {
	client *Client
	name   string
}

// Databases is the collection of databases.
func (c *Client) Databases() *Collection[cloud.Database, cloud.DatabaseFields] {
	return &Collection[cloud.Database, cloud.DatabaseFields]{client: c, name: cloud.Databases}
}

// Instances is the collection of instances.
func (c *Client) Instances() *Collection[cloud.Instance, cloud.InstanceFields] {
	return &Collection[cloud.Instance, cloud.InstanceFields]{client: c, name: cloud.Instances}
}

func (c *Collection[R, F]) path(name string) string {
	return "/" + c.name + "/" + url.PathEscape(name)
}

// Get a resource. The error may be an IsNotFound.
func (c *Collection[R, F]) Get(ctx context.Context, name string) (R, error) {
	var r R
	_, err := c.client.do(ctx, http.MethodGet, c.path(name), nil, &r)
	return r, err
}

// List all resources, by name.
func (c *Collection[R, F]) List(ctx context.Context) ([]R, error) {
	list := struct {
		Items []R `json:"items"`
	}{}
	_, err := c.client.do(ctx, http.MethodGet, "/"+c.name, nil, &list)
	return list.Items, err
}

// Put creates a resource. Pending means that the cloud accepted it and has not
// finished. The error may be an IsConflict if it exists already.
func (c *Collection[R, F]) Put(ctx context.Context, name string, f F) (r R, pending bool, err error) {
	code, err := c.client.do(ctx, http.MethodPut, c.path(name), f, &r)
	return r, code == http.StatusAccepted, err
}

// Patch replaces the fields that the changes have when encoded to JSON; null
// removes one. While it is pending, the resource has the old values. The error
// may be an IsNotFound, or an IsConflict if the resource is busy.
func (c *Collection[R, F]) Patch(ctx context.Context, name string, changes any) (r R, pending bool, err error) {
	code, err := c.client.do(ctx, http.MethodPatch, c.path(name), changes, &r)
	return r, code == http.StatusAccepted, err
}

// Delete a resource. The error may be an IsNotFound.
func (c *Collection[R, F]) Delete(ctx context.Context, name string) (pending bool, err error) {
	code, err := c.client.do(ctx, http.MethodDelete, c.path(name), nil, nil)
	return code == http.StatusAccepted, err
}
