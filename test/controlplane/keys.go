package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Files below DIR/pki.
const (
	fileClusterCA  = "cluster-ca.crt"
	fileCA         = "ca.crt"
	fileServingCrt = "apiserver.crt"
	fileServingKey = "apiserver.key"
	fileSAKey      = "service-account.key"
	fileSAPub      = "service-account.pub"
	fileTokens     = "tokens.csv"
	fileAudit      = "audit-policy.yaml"
	fileClientCrt  = "apiserver-client.crt"
	fileClientKey  = "apiserver-client.key"
	fileAdmission  = "admission.yaml"
	fileClient     = "admission-client.yaml"
)

// Users that the API server knows by a token.
const (
	userAdmin             = "kubernetes-admin"
	groupMasters          = "system:masters"
	userControllerManager = "system:kube-controller-manager"
)

// auditPolicy records each request once, when it is answered; those of some API groups, and writes of others, with their
// objects.
func auditPolicy(groups, writes []string) string {
	out := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n"
	for _, g := range groups {
		out += "- {level: RequestResponse, resources: [{group: " + g + "}]}\n"
	}

	for _, r := range writes {
		resource, group, _ := strings.Cut(r, ".")
		resources := strconv.Quote(resource)
		if resource != "*" { // which includes subresources
			resources += ", " + strconv.Quote(resource+"/*")
		}

		out += fmt.Sprintf("- {level: RequestResponse, verbs: [create, update, patch, delete, deletecollection], resources: [{group: %q, resources: [%s]}]}\n",
			group, resources)
	}

	return out + "- level: Metadata\n"
}

// admissionConfiguration lets the API server present a client certificate to every webhook.
func (c *ControlPlane) admissionConfiguration() (configuration, client string, err error) {
	configuration = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, plugin := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		configuration += "- name: " + plugin + "\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, " +
			"kubeConfigFile: " + c.pki(fileClient) + "}\n"
	}

	for _, name := range slices.Sorted(maps.Keys(c.opts.AdmissionPlugins)) {
		raw, err := json.Marshal(c.opts.AdmissionPlugins[name])
		if err != nil {
			return "", "", fmt.Errorf("cannot encode the configuration of plugin %s: %w", name, err)
		}

		configuration += "- name: " + name + "\n  configuration: " + string(raw) + "\n"
	}

	client = "apiVersion: v1\nkind: Config\nusers:\n- name: '*'\n  user: {client-certificate: " + c.pki(fileClientCrt) +
		", client-key: " + c.pki(fileClientKey) + "}\n"

	return configuration, client, nil
}

// ClientCA returns the path of the authority, in PEM, of the certificate that the API server presents to webhooks.
func (c *ControlPlane) ClientCA() string { return c.pki(fileClusterCA) }

// writeKeys makes the authorities and writes what the API server and the controller manager are
// given as files.
func (c *ControlPlane) writeKeys(context.Context) error {
	var err error
	if c.cluster, err = NewCA("kausality test cluster"); err != nil {
		return err
	}

	if c.ca, err = NewCA("kausality test functions and webhooks"); err != nil {
		return err
	}

	files := map[string][]byte{fileClusterCA: c.cluster.Bundle(), fileCA: c.ca.Bundle(), fileAudit: []byte(auditPolicy(c.opts.AuditGroups, c.opts.AuditWrites))}

	name := nameOf("kube-apiserver")
	if files[fileServingCrt], files[fileServingKey], err = c.cluster.issue(name, "localhost", "127.0.0.1", "kubernetes.default.svc"); err != nil {
		return err
	}

	if files[fileClientCrt], files[fileClientKey], err = c.cluster.issue(nameOf("kube-apiserver"), "localhost"); err != nil {
		return err
	}

	configuration, client, err := c.admissionConfiguration()
	if err != nil {
		return err
	}

	files[fileAdmission], files[fileClient] = []byte(configuration), []byte(client)

	if files[fileSAKey], files[fileSAPub], err = keyPair(); err != nil {
		return err
	}

	c.tokens = map[string]string{userAdmin: rand.Text(), userControllerManager: rand.Text()}
	files[fileTokens] = fmt.Appendf(nil, "%s,%s,%s,%s\n%s,%s,%s\n",
		c.tokens[userAdmin], userAdmin, userAdmin, groupMasters,
		c.tokens[userControllerManager], userControllerManager, userControllerManager)

	for name, data := range files {
		if _, err := c.writeFile(data, dirPKI, name); err != nil {
			return err
		}
	}

	return nil
}

// pki returns the path of a file below DIR/pki.
func (c *ControlPlane) pki(name string) string { return filepath.Join(c.dir.path, dirPKI, name) }

// keyPair returns a key and its public half, in PEM.
func keyPair() (key, pub []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a key: %w", err)
	}

	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode a key: %w", err)
	}

	key, err = encodeKey(k)

	return key, encode("PUBLIC KEY", der), err
}
