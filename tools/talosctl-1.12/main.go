// The real Talos client, without its local-VM half.
//
// Every command that talks to a cluster is upstream's own code, from the
// module version pinned in go.mod. Only this root is ours: upstream's root
// also pulls in the commands that start virtual machines, which the tests
// never use, and not all of whose dependencies could be fetched as modules.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	// Turns off the ALPN check, as every released client does: without it
	// the client would be stricter about TLS than the one users run.
	_ "github.com/siderolabs/talos/cmd/talosctl/acompat"
	"github.com/siderolabs/talos/cmd/talosctl/cmd/common"
	"github.com/siderolabs/talos/cmd/talosctl/cmd/talos"
)

func main() {
	// The client options (--talosconfig, --nodes, --endpoints and so on) need
	// no care here: upstream puts them on each command, not on the root.
	root := &cobra.Command{
		Use:           "talosctl",
		Short:         "The Talos client, as the tests of talos-operator use it",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(talos.Commands...)

	command, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return
	}

	if !common.SuppressErrors {
		fmt.Fprintln(os.Stderr, err)

		if isMisuse(err.Error()) {
			fmt.Fprintf(os.Stderr, "\n%s\n", command.UsageString())
		}
	}

	os.Exit(1)
}

// isMisuse guesses whether the command line was wrong, so that usage follows
// the message exactly where the released client prints it too. Its guess goes
// by these words, because cobra gives such errors no type.
func isMisuse(message string) bool {
	for _, word := range []string{"arg(s)", "flag", "command"} {
		if strings.Contains(message, word) {
			return true
		}
	}

	return false
}
