# SPDX-License-Identifier: GPL-2.0-or-later
# The same question as Holdfast's engine answers, for general policy engines: data.rules holds rules with
# programs and endpoints; a request is allowed if one rule names its program, host, port, method and path.
package bench

import rego.v1

default allow := false

allow if {
	some rule in data.rules
	some program in rule.programs
	glob.match(program, ["/"], input.program)
	some endpoint in rule.endpoints
	endpoint.port == input.port
	glob.match(endpoint.host, ["."], input.host)
	some clause in endpoint.allow
	clause.method == input.method
	glob.match(clause.path, ["/"], input.path)
}
