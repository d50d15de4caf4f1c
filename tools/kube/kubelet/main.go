// Command kubelet is the part of a kubelet that executes commands, for tests: a kubelet's real stream server, which runs
// this machine's programs. A container is a folder NAMESPACE/POD/CONTAINER, searched first for programs.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

func main() {
	folder := flag.String("containers", "", "folder that has a folder for each container")
	cert := flag.String("cert", "", "certificate file")
	key := flag.String("key", "", "key file of the certificate")
	ca := flag.String("ca", "", "file with the CA that signs API servers' certificates")
	flag.Parse()
	if err := serve(*folder, *cert, *key, *ca); err != nil {
		log.Fatal(err)
	}
}

// serve prints the port on which it listens.
func serve(folder, cert, key, ca string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	signers := x509.NewCertPool()
	if !signers.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate", ca)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	// SPDY takes the connection over, which HTTP/2 does not allow.
	return http.Serve(tls.NewListener(l, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: signers, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}), handler(folder))
}

func handler(folder string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		path := filepath.Join(folder, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
		if _, err := os.Stat(path); err != nil {
			http.Error(w, fmt.Sprintf("container not found (%q)", r.PathValue("container")), http.StatusNotFound)
			return
		}
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, container(path), r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"],
			options, time.Hour, 30*time.Second, remotecommand.SupportedStreamingProtocols)
	})
	return mux
}

// A container is the folder with its programs.
type container string

// ExecInContainer runs a command until it ends, with an input that ends with the connection.
func (c container) ExecInContainer(_ context.Context, _, _, _ string, command []string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	path := string(c) + ":" + os.Getenv("PATH")
	program, err := lookUp(command[0], path)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, command[1:]...)
	cmd.Env = []string{"PATH=" + path, "HOME=/"}
	cmd.Stdout, cmd.Stderr = out, errs
	if in != nil {
		pipe, err := cmd.StdinPipe() // Wait does not wait for what copies into it
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in)
			_ = pipe.Close()
		}()
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}

func lookUp(program, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, program)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", program)
}
