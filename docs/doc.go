// Package docs embeds the documents that programs print.
package docs

import _ "embed"

// DriftReportSchema is the JSON schema of DriftReports.
//
//go:embed driftreport.schema.json
var DriftReportSchema []byte
