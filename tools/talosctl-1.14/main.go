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
	"github.com/siderolabs/talos/cmd/talosctl/pkg/talos/safeout"
	"github.com/siderolabs/talos/pkg/cli"
)

func main() {
	if err := run(); err != nil {
		os.Exit(1)
	}
}

func run() error {
	// Since 1.14 all output passes a filter that may hold back the end of a
	// line; what it still holds would be lost without this.
	defer safeout.Flush()

	// The client options (--talosconfig, --nodes, --endpoints and so on) need
	// no care here: upstream puts them on each command, not on the root.
	root := &cobra.Command{
		Use:           "talosctl",
		Short:         "The Talos client, as the tests of talos-operator use it",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(safeout.Stdout())
	root.SetErr(safeout.Stderr())
	root.AddCommand(talos.Commands...)

	// Since 1.14 the commands leave Ctrl-C to the root.
	command, err := cli.WithContextC(context.Background(), root.ExecuteContextC)
	if err != nil && !common.SuppressErrors {
		safeout.Flush()
		fmt.Fprintln(os.Stderr, safeout.String(err.Error()))

		if isMisuse(err.Error()) {
			fmt.Fprintf(safeout.Stderr(), "\n%s\n", command.UsageString())
		}
	}

	return err
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
