package iam

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Request is what AWS is requested to do, as CloudTrail records it.
type Request struct {
	EventSource  string `json:"eventSource"`
	EventName    string `json:"eventName"`
	UserIdentity struct {
		Type           string `json:"type"`
		ARN            string `json:"arn"`
		SessionContext struct {
			SessionIssuer struct {
				ARN string `json:"arn"`
			} `json:"sessionIssuer"`
		} `json:"sessionContext"`
	} `json:"userIdentity"`
	RequestParameters struct {
		RoleARN           string   `json:"roleArn,omitempty"`
		RoleName          string   `json:"roleName,omitempty"`
		RoleSessionName   string   `json:"roleSessionName,omitempty"`
		ExternalID        string   `json:"externalId,omitempty"`
		BucketName        string   `json:"bucketName,omitempty"`
		InstanceName      string   `json:"dBInstanceIdentifier,omitempty"`
		Tags              []Tag    `json:"tags,omitempty"`
		TransitiveTagKeys []string `json:"transitiveTagKeys,omitempty"`
		// IncomingTransitiveTags are those that the session inherits.
		IncomingTransitiveTags map[string]string `json:"incomingTransitiveTags,omitempty"`
	} `json:"requestParameters"`
	Resources []struct {
		ARN string `json:"ARN"`
	} `json:"resources"`

	// PrincipalTags are those of the session and of its role. No event has them.
	PrincipalTags map[string]string `json:"principalTags,omitempty"`
}

// Tag of a session or a resource.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Requests reads requests by their names. A field that no evaluation reads is an error.
func Requests(raw []byte) (out map[string]*Request, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("cannot read requests: %w", err)
	}
	for name, r := range out {
		if r.EventName == "" || !strings.HasSuffix(r.EventSource, ".amazonaws.com") || len(r.Resources) != 1 || !roleARN.MatchString(r.principal()) {
			return nil, fmt.Errorf("request %q: want eventName, eventSource, one resource, and a role as the issuer of the session", name)
		}
	}
	return out, nil
}

// principal returns aws:PrincipalArn: the ARN of the role, not that of its session.
func (r *Request) principal() string { return r.UserIdentity.SessionContext.SessionIssuer.ARN }

func (r *Request) resource() string { return r.Resources[0].ARN }

// actions returns what has to be allowed: a role that is assumed with tags needs sts:TagSession as well.
func (r *Request) actions() []string {
	service, _ := strings.CutSuffix(r.EventSource, ".amazonaws.com")
	out := []string{service + ":" + r.EventName}
	if r.assumes() && len(r.RequestParameters.Tags) > 0 {
		out = append(out, "sts:TagSession")
	}
	return out
}

// assumes reports whether the request is decided about by the trust policy of a role.
func (r *Request) assumes() bool {
	return r.EventSource == "sts.amazonaws.com" && r.EventName == "AssumeRole"
}

// values returns the values of a condition key; nil where the request has no such key.
func (r *Request) values(key string) (out []string, err error) {
	name := strings.ToLower(key)
	switch {
	case name == "aws:principalarn":
		return []string{r.principal()}, nil
	case name == "sts:externalid":
		if id := r.RequestParameters.ExternalID; id != "" {
			out = append(out, id)
		}
	case name == "sts:transitivetagkeys":
		return r.RequestParameters.TransitiveTagKeys, nil
	case name == "aws:tagkeys":
		for _, t := range r.RequestParameters.Tags {
			out = append(out, t.Key)
		}
	case strings.HasPrefix(name, "aws:requesttag/"):
		for _, t := range r.RequestParameters.Tags {
			if strings.EqualFold("aws:RequestTag/"+t.Key, name) {
				out = append(out, t.Value)
			}
		}
	case strings.HasPrefix(name, "aws:principaltag/"):
		for k, v := range r.PrincipalTags {
			if strings.EqualFold("aws:PrincipalTag/"+k, name) {
				out = append(out, v)
			}
		}
	default:
		return nil, fmt.Errorf("unknown condition key %q", key)
	}
	return out, nil
}
