// Package apiserver is Kausality within an API server: an admission plugin for servers that are built on k8s.io/apiserver, with the decisions,
// warnings, audit annotations and codes of the webhook, and without its network hop. It decides nothing by itself.
//
// A server makes one Kausality, registers its plugin, and adds it to its configuration:
//
//	k := apiserver.New()
//	k.Register(options.Admission.Plugins)
//	options.Admission.RecommendedPluginOrder = apiserver.Order(options.Admission.RecommendedPluginOrder)
//	// … the options are applied to the configuration
//	err := k.AddTo(&config.GenericConfig.Config)
//
// The plugin is configured by the file of --admission-control-config-file, with a Configuration. Until the kinds and policies of the server are
// read, it refuses what is guarded with 500, or lets it pass with a warning in mode log, but for requests of the server itself.
//
// The server must serve the CRDs of kausality.io.
package apiserver
