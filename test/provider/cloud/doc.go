// Package cloud is the external system behind the test provider: an HTTP server
// that holds databases and instances and logs every request. It can be set to be
// slow, to fail, to work asynchronously, to finish creation only by a later
// update, to delete slowly, to lose a resource and to change one without a
// request.
//
// Everything runs by a clock that can be moved. Operations that take time are
// completed lazily, by whatever request comes next after they are due, so there
// are no timers and a test that moves the clock sees the effect with its next
// request. Effects and log entries are made under one lock: the order of the
// log is the order of the effects. Nothing is kept on disk, and nothing is
// authenticated: it listens on loopback.
//
// Resources:
//
//	PUT    /databases/{name}   create: 201, 202 if asynchronous, 409 if it exists
//	GET    /databases/{name}   200, 404
//	PATCH  /databases/{name}   replace the fields given: 200, 202, 409 if busy
//	DELETE /databases/{name}   204, 202 if it takes time, 404
//	GET    /databases          all, by name
//
// and the same below /instances.
//
// Control (never logged, except lose and change, as kind "backdoor"):
//
//	GET    /healthz
//	GET    /_log?since=N&writes=1    entries after N
//	GET    /_control                 the settings
//	POST   /_control                 change the settings given
//	DELETE /_control                 back to the defaults
//	POST   /_control/finish          {"name","error"} finish operations, all without a name
//	POST   /_control/lose            {"name"} remove without a trace
//	POST   /_control/change          {"name", fields...} change without a trace
//	GET    /_clock                   {"now"}
//	POST   /_clock                   {"advance":"2h"}
package cloud
