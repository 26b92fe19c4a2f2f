package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// registry serves the images of a folder, read-only, as far as a client needs to
// pull them. Names with ".." never reach it: the server cleans paths.
func registry(folder string) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		path, found := strings.CutPrefix(request.URL.Path, "/v2/")
		if !found {
			http.NotFound(answer, request)
			return
		}
		if path == "" {
			answer.WriteHeader(http.StatusOK)
			return
		}
		name, kind, reference, ok := parsePath(path)
		if !ok {
			http.NotFound(answer, request)
			return
		}
		digest := reference
		if kind == "manifests" && !strings.HasPrefix(reference, "sha256:") {
			text, err := os.ReadFile(filepath.Join(folder, "tags", name, reference))
			if err != nil {
				unknown(answer, "MANIFEST_UNKNOWN")
				return
			}
			digest = string(text)
		}
		file, err := os.Open(filepath.Join(folder, "blobs", digest))
		if err != nil {
			unknown(answer, "BLOB_UNKNOWN")
			return
		}
		defer file.Close()
		information, err := file.Stat()
		if err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		answer.Header().Set("Docker-Content-Digest", digest)
		answer.Header().Set("Content-Type", "application/octet-stream")
		if kind == "manifests" {
			answer.Header().Set("Content-Type", manifestType)
		}
		http.ServeContent(answer, request, "", information.ModTime(), file)
	})
}

// parsePath splits NAME/manifests/REFERENCE or NAME/blobs/DIGEST.
func parsePath(path string) (name, kind, reference string, ok bool) {
	for _, kind := range []string{"manifests", "blobs"} {
		if at := strings.LastIndex(path, "/"+kind+"/"); at > 0 {
			return path[:at], kind, path[at+len(kind)+2:], true
		}
	}
	return "", "", "", false
}

func unknown(answer http.ResponseWriter, code string) {
	answer.Header().Set("Content-Type", "application/json")
	answer.WriteHeader(http.StatusNotFound)
	_, _ = answer.Write([]byte(`{"errors":[{"code":"` + code + `"}]}`))
}
