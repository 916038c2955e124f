// Command pulumi-resource-kubernetes serves the upstream Kubernetes provider, unchanged.
//
// Upstream's main embeds a schema that its release process generates and its module does not hold. The build of this
// folder makes the same two files from the module (toolchain/build.py, provider_sources) and lays them beside this file.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema-embed.json
var schema []byte

//go:embed terraform-mapping-embed.json
var mapping []byte

func main() { provider.Serve("kubernetes", version.Version, schema, mapping) }
