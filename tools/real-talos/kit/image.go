package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// image writes an image of one layer into the registry's folder:
//
//	kit image FOLDER NAME TAG[,TAG...] ITEM...
//
// where an item is file:SOURCE=PLACE, tree:SOURCE=PLACE, text:PLACE=TEXT,
// link:PLACE=TARGET, dir:PLACE or entrypoint:PROGRAM. Everything but symbolic
// links belongs to root and may be executed.
func image(arguments []string) error {
	if len(arguments) < 4 {
		return fmt.Errorf("usage: kit image FOLDER NAME TAG[,TAG...] ITEM...")
	}
	folder, name, tags, items := arguments[0], arguments[1], arguments[2], arguments[3:]
	blobs := filepath.Join(folder, "blobs")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return err
	}

	layer := &layer{made: map[string]bool{}}
	var entrypoint []string
	digest, size, err := keep(blobs, func(out io.Writer) error {
		layer.tar = tar.NewWriter(out)
		for _, item := range items {
			if program, found := strings.CutPrefix(item, "entrypoint:"); found {
				entrypoint = []string{program}
			} else if err := layer.add(item); err != nil {
				return fmt.Errorf("%s: %w", item, err)
			}
		}
		return layer.tar.Close()
	})
	if err != nil {
		return err
	}

	configDigest, configSize, err := keep(blobs, document(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": entrypoint,
			"Env":        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		// The layer is not compressed: its digest is that of its contents.
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest}},
	}))
	if err != nil {
		return err
	}
	manifest, _, err := keep(blobs, document(map[string]any{
		"schemaVersion": 2,
		"mediaType":     manifestType,
		"config":        descriptor(configType, configDigest, configSize),
		"layers":        []any{descriptor(layerType, digest, size)},
	}))
	if err != nil {
		return err
	}
	for _, tag := range strings.Split(tags, ",") {
		place := filepath.Join(folder, "tags", name, tag)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(place, []byte(manifest), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func descriptor(mediaType, digest string, size int64) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": digest, "size": size}
}

func document(value any) func(io.Writer) error {
	return func(out io.Writer) error { return json.NewEncoder(out).Encode(value) }
}

// keep stores what is written under its digest.
func keep(blobs string, write func(io.Writer) error) (digest string, size int64, err error) {
	file, err := os.CreateTemp(blobs, "partial-")
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(file.Name()) // fails once it is in its place
	hash := sha256.New()
	if err := write(io.MultiWriter(file, hash)); err != nil {
		return "", 0, err
	}
	information, err := file.Stat()
	if err != nil {
		return "", 0, err
	}
	if err := file.Close(); err != nil {
		return "", 0, err
	}
	digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return digest, information.Size(), os.Rename(file.Name(), filepath.Join(blobs, digest))
}

type layer struct {
	tar  *tar.Writer
	made map[string]bool
}

func (l *layer) add(item string) error {
	kind, rest, _ := strings.Cut(item, ":")
	before, after, _ := strings.Cut(rest, "=")
	switch kind {
	case "dir":
		return l.parents(rest + "/x")
	case "link":
		return l.write(&tar.Header{Typeflag: tar.TypeSymlink, Name: before, Linkname: after, Mode: 0o777}, nil)
	case "text":
		header := &tar.Header{Name: before, Size: int64(len(after)), Mode: 0o644}
		return l.write(header, strings.NewReader(after))
	case "file":
		return l.file(before, after)
	case "tree":
		return filepath.WalkDir(before, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			relative, err := filepath.Rel(before, path)
			if err != nil {
				return err
			}
			place := filepath.Join(after, relative)
			if target, err := os.Readlink(path); err == nil {
				return l.add("link:" + place + "=" + target)
			}
			return l.file(path, place)
		})
	}
	return fmt.Errorf("unknown kind of item")
}

func (l *layer) file(source, place string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	information, err := file.Stat()
	if err != nil {
		return err
	}
	return l.write(&tar.Header{Name: place, Size: information.Size(), Mode: 0o755}, file)
}

func (l *layer) write(header *tar.Header, contents io.Reader) error {
	if err := l.parents(header.Name); err != nil {
		return err
	}
	if err := l.tar.WriteHeader(header); err != nil || contents == nil {
		return err
	}
	_, err := io.Copy(l.tar, contents)
	return err
}

// parents writes the folders above a place, each once.
func (l *layer) parents(place string) error {
	var folders []string
	for folder := filepath.Dir(place); folder != "." && folder != "/"; folder = filepath.Dir(folder) {
		folders = append(folders, folder)
	}
	slices.Reverse(folders)
	for _, folder := range folders {
		if l.made[folder] {
			continue
		}
		l.made[folder] = true
		header := &tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}
		if err := l.tar.WriteHeader(header); err != nil {
			return err
		}
	}
	return nil
}
