package recording

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func failed(op string, err error) error { return &fs.PathError{Op: op, Path: "x", Err: err} }

// Trees are read back exactly as written, whatever the files contain.
func TestTreesAreExact(t *testing.T) {
	tree := Tree{
		"class/drm/card0":             {Link: "../../devices/pci0000:00/0000:03:00.0/drm/card0"},
		"devices/0000:03:00.0/vendor": {Text: []byte("0x1002\n")},
		"empty":                       {},
		"without-an-end":              {Text: []byte("12")},
		"blob":                        {Text: bytes.Repeat([]byte{0xff, 0, '\n', 'a'}, 40)},
		"like-a-mark":                 {Text: []byte("== vendor\n0x1002\n")},
		"with-a-mark-in-it":           {Text: []byte("a\n== vendor\n")},
		"several-lines":               {Text: []byte("a\n\nb\tc\n")},
		"returns":                     {Text: []byte("a\r\nb\r\n")},
		"denied":                      Failed(failed("open", syscall.EACCES)),
		"resetting":                   Failed(failed("read", syscall.EPERM)),
		"gone":                        Failed(failed("read", syscall.ENODEV)),
		"new-to-us":                   Failed(failed("read", syscall.EXDEV)),
		"100/fd/7":                    {Link: "/dev/dri/renderD128"},
	}
	text := tree.Bytes()
	back, err := ParseTree(append([]byte("A remark.\n"), text...))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if !reflect.DeepEqual(tree, back) || !bytes.Equal(back.Bytes(), text) {
		t.Errorf("read back as\n%s\nnot\n%s", back.Bytes(), text)
	}
	for name, want := range map[string]string{
		"denied": "open: EACCES", "resetting": "read: EPERM", "gone": "read: ENODEV", "new-to-us": "read: EIO",
	} {
		if !strings.Contains(string(text), "== "+name+" ("+want+")\n") {
			t.Errorf("%s is not %s:\n%s", name, want, text)
		}
	}
}

// Nothing in a tree leads out of the folder where it is unpacked.
func TestHostileTrees(t *testing.T) {
	for _, text := range []string{
		"== ../x\na\n", "== /etc/x\na\n", "== a/../../x\na\n", "== a -> ../x\n", "== a -> /etc\n", "== a/b -> ../../x\n", "== \na\n", "== a b\nx\n", "== a -> b c\n", "== a(b\nx\n", "== .\na\n",
		"== a -> b\n== a/c\nx\n", "== a\nx\n== a/c\nx\n", "== a/b/c -> ../..\n== a/b/c/d -> ../../..\n",
		"== a\nx\n== a\ny\n", "== a (what)\n", "== a (open: EWHAT)\n", "== a (close: EIO)\n", "== a (hex)\nxyz\n", "== a -> b\ntext\n", "== a (read: EIO)\ntext\n",
	} {
		if tree, err := ParseTree([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, tree)
		}
	}
}

func TestUnpack(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	root := t.TempDir()
	tree, err := ParseTree([]byte("== class/card0 -> ../devices/a\n== devices/a/vendor\n0x1\n== devices/a/secret (open: EACCES)\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Unpack(root); err != nil {
		t.Fatal(err)
	}
	read := tree.Reader(root, os.ReadFile)
	if text, err := read(filepath.Join(root, "class/card0/vendor")); err != nil || string(text) != "0x1\n" {
		t.Errorf("%q, %v", text, err)
	}
	text, err := read(filepath.Join(root, "devices/a/secret"))
	if e, ok := errors.AsType[*fs.PathError](err); !ok || e.Op != "open" || !errors.Is(err, syscall.EACCES) || text != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func FuzzTree(f *testing.F) {
	f.Add([]byte("== a -> b\n== c (hex)\n00ff\n== d (open: EPERM)\n== e\ntext\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tree, err := ParseTree(text)
		if err != nil {
			return
		}
		for name := range tree {
			if !filepath.IsLocal(name) {
				t.Errorf("%q leads out", name)
			}
		}
		again, err := ParseTree(tree.Bytes())
		if err != nil {
			t.Fatalf("%v in %q", err, tree.Bytes())
		}
		if !bytes.Equal(again.Bytes(), tree.Bytes()) {
			t.Errorf("%q is written as %q", tree.Bytes(), again.Bytes())
		}
	})
}
